"""What a change must not record or decode again: the closures of the study's GPU rules are narrow."""

import pytest
from draftscope import closure

FOREIGN = ("statistics", "exhibits", "position", "choice", "config", "domains", "replay", "loops")
RECORDED = {"__init__.py", "record_schemas.py", "recording.py"}


@pytest.mark.parametrize(
    ("script", "own"),
    [("certificate_record.py", RECORDED), ("certificate_live.py", {*RECORDED, "live.py"})],
)
def test_recordings_depend_on_no_statistics_exhibits_or_settings(script, own):
    files = [path.relative_to(closure.SCRIPTS) for path in closure.sources(script)]
    for path in files:
        parts = path.with_suffix("").parts
        assert len(parts) < 2 or parts[1] not in FOREIGN, path
    assert {path.name for path in files if "certificate_study" in path.parts} == own


@pytest.mark.parametrize("script", ["live_decode.py", "batch_decode.py"])
def test_live_decoding_does_not_depend_on_certificates(script):
    names = {path.relative_to(closure.SCRIPTS).as_posix() for path in closure.sources(script)}
    assert "draftscope/criteria.py" in names
    assert not any("certificate" in name for name in names)
