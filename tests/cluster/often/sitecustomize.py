"""Lets Snakemake ask Slurm for news every half second; Python imports this file as it starts.

The plugin waits 10 s longer after each look that brought no news, which is right for a queue of
hours and most of the time of a test.
"""

import asyncio
import sys

if "--executor" not in sys.orig_argv and "snakemake" in sys.orig_argv:
    patient = asyncio.sleep

    async def sleep(delay, result=None):
        return await patient(min(delay, 0.5), result)

    asyncio.sleep = sleep
