"""Training of drafters that propose a whole block in one pass."""

# Modules that make the trainer of a kind of model and save it. Loaded by name, so that a change of
# what is ReTrace's own trains no DFlash drafter again.
MAKERS = {
    "dflash": "draftscope.block_training.make_dflash",
    "retrace": "draftscope.block_training.make_retrace",
}
