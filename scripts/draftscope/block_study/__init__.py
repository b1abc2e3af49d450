"""The studies `losses` and `retrace`: block drafters trained with several losses, or with a memory."""
