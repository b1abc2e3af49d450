"""How tests are shared out between processes: a file stays together, and so do all workflow tests.

A file's fixtures are then made once. The workflow tests share a finished run of the tiny
experiment, which takes a minute.
"""

import pytest


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadScopeScheduling

    class TogetherByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            return "workflow" if "workflow/" in path else path

    return TogetherByFile(config, log)
