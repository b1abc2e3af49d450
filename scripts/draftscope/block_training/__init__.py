"""Training of drafters that propose a whole block in one pass."""
