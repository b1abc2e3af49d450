"""Token trees: several continuations drafted at once and verified in one pass of the target."""
