"""Drafts that are trained here: on the target's own text of training prompts, and on nothing else."""
