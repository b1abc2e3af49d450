"""What a change must not decode or time again: the closures of the live rules are narrow."""

import pytest
from draftscope import closure

SCRIPTS = ("live_decode.py", "batch_decode.py", "lossless_scores.py", "verify_latency.py")
FOREIGN = ("statistics", "exhibits", "position", "choice", "config", "replay", "loops", "metrics")
STATISTICS_OF_THE_STUDY = {
    f"{name}.py"
    for name in (
        "schemas", "speed", "breakdown", "tables", "proof_tables", "figures", "measurements",
        "replay_check", "replay_inputs", "equivalence", "judgement", "settings", "batch_speed",
    )
}  # fmt: skip


@pytest.mark.parametrize("script", SCRIPTS)
def test_live_rules_depend_on_no_statistics_exhibits_or_settings(script):
    files = [path.relative_to(closure.SCRIPTS) for path in closure.sources(script)]
    assert closure.SCRIPTS.joinpath("draftscope/lossless/live_schemas.py") in closure.sources(
        script
    )
    for path in files:
        parts = path.with_suffix("").parts
        assert len(parts) < 2 or parts[1] not in FOREIGN, path
        assert "lossless" not in parts or path.name not in STATISTICS_OF_THE_STUDY, path
