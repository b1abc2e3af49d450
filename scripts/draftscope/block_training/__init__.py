"""Training of drafters that propose a whole block in one pass."""

# Modules that make the trainer of a kind of model and save it. Loaded by name, so that a change of
# how one kind is trained trains no other again.
MAKERS = {
    "dflash": "draftscope.block_training.make_dflash",
    "retrace": "draftscope.block_training.make_retrace",
}
