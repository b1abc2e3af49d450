"""The certificates study: how close a draft must be to be sure of acceptance, and how close ours are."""
