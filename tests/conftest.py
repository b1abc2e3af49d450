"""How tests are shared out between processes: a file stays together, and so do all workflow tests.

A file's fixtures are then made once. The workflow tests share a finished run of the tiny
experiment, which takes a minute; they take longest, so they come first.
"""

import pytest


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: "workflow" not in item.path.parts)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadScopeScheduling

    class TogetherByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            return "workflow" if "workflow/" in path else path

    config.option.loadscopereorder = False  # in the order above, not by the number of tests
    return TogetherByFile(config, log)
