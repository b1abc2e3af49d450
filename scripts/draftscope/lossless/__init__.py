"""Is the emitted text distributed as the target's own? Tests of losslessness on three levels."""
