"""How large a run may be: synthetic runs of any size, and what their analysis and planning cost."""
