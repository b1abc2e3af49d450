"""Strikes a process at a moment that a test has chosen; Python imports this file as it starts.

A test puts this folder on PYTHONPATH and a list of strikes into INTERFERE; see `tests/strikes.py`.
Nothing of the project knows of it.
"""

import functools
import importlib.abc
import importlib.util
import itertools
import json
import os
import signal
import sys
import time


def strike(kind):
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif kind == "vanish":
        os._exit(0)
    elif kind == "fill":
        raise OSError(28, os.strerror(28))
    elif kind == "hold":
        mark = f"held.{os.getpid()}"
        open(mark, "w").close()
        while os.path.exists(mark):
            time.sleep(0.05)


def struck(function, plan):
    calls = itertools.count(1)

    @functools.wraps(function)
    def stand_in(*arguments, **named):
        if plan["with"] in repr(arguments) and next(calls) == plan["call"]:
            strike(plan["do"])
        return function(*arguments, **named)

    return stand_in


class After(importlib.abc.MetaPathFinder):
    """Replaces a function once its module has been imported."""

    def __init__(self, module, name, plan):
        self.module, self.name, self.plan = module, name, plan

    def find_spec(self, name, path, target=None):
        if name != self.module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            setattr(module, self.name, struck(getattr(module, self.name), self.plan))

        spec.loader.exec_module = exec_module
        return spec


for plan in json.loads(os.environ.get("INTERFERE", "[]")):
    if all(word in " ".join(sys.orig_argv) for word in plan["job"]):
        if not plan["at"]:
            strike(plan["do"])
            continue
        module, name = plan["at"].split(":")
        if module in sys.modules:
            setattr(sys.modules[module], name, struck(getattr(sys.modules[module], name), plan))
        else:
            sys.meta_path.insert(0, After(module, name, plan))
