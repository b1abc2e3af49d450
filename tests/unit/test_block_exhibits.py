"""Exhibits, findings and scorecard rows of the studies of block drafters, made by their scripts."""

import json
import sys
from unittest import mock

import block_measurements
import block_statistics
import draftscope.block_study.schemas
import draftscope.exhibits.measurement  # noqa: F401
import loss_exhibits
import pytest
import retrace_exhibits
from block_study_files import GAMMA, Plan, write, write_history
from draftscope import records
from draftscope.errors import UserError
from draftscope.exhibits import published, scorecard
from draftscope.exhibits.tables import read_table
from draftscope.strict import load_yaml
from experiments import ROOT

pytestmark = pytest.mark.slow
LOSSES = Plan(
    {"ce_decay": 0.35, "dpace": 0.5, "dpal": 0.51, "lookup": 0.2, "bigram": 0.15},
    baselines=("lookup", "bigram"),
)
RETRACE = Plan(
    {"backbone": 0.45, "none": 0.46, "overwrite": 0.45, "gated": 0.5, "corrected_gated": 0.58},
    training_sd=0.01,
)
LOOPS = {"max_period": 8, "min_repeats": 3, "min_span": 8}
CONDITIONS = load_yaml(ROOT / "config/published/conditions.yaml")
LAWS = {
    "greedy": {"temperature": 0.0, "top_k": 0, "top_p": 1.0},
    "warm": {"temperature": 0.7, "top_k": 0, "top_p": 1.0},
}
RUN = {"target": "tiny", "block_size": 5, "draft_length": GAMMA, "laws": LAWS}
RUN |= {name: {"math": what, "chat": what} for name, what in
        (("data", "own"), ("prompts", 12), ("max_new_tokens", 60))}  # fmt: skip
RUN |= {"drafter": CONDITIONS["retrace"]["drafter"]
        | {"block_size": 5, "vocabulary": 90, "slots": "lookup", "init": "target"}}  # fmt: skip
RUN["training_data"] = "own"


def loss(name: str, smoothing: float = 0.5, decay: float | None = None) -> dict:
    return {"name": name, "smoothing": smoothing, "decay": decay}


ARMS = {"ce_decay": loss("ce_decay", decay=2.0), "dpace": loss("dpace"), "dpal": loss("dpal")}


def run(script, **options) -> None:
    """Call a script's `main` with these options."""
    arguments = []
    for name, value in options.items():
        flag = f"--{name.replace('_differences', '-differences') if script is block_measurements else name}"
        values = value if isinstance(value, list) else [value]
        arguments += [flag, *map(str, values)]
    with mock.patch.object(sys, "argv", [script.__name__, *arguments]):
        script.main()


def settings(rows, probed=(), **options) -> str:
    common = {"draft_length": GAMMA, "effect": 0.07, "loops": LOOPS, "confidence": 0.95}
    return json.dumps({"sources": rows, "timed": rows, "probed": list(probed)} | common | options)


def histories(folder, plan: Plan) -> tuple[str, list[str]]:
    trained, paths = [], []
    for arm in plan.rates:
        if arm not in plan.baselines:
            for number in (1, 2):
                trained.append({"arm": arm, "training": number, "draft": f"{arm}-{number}"})
                path = folder / f"{arm}-{number}-history.parquet"
                paths.append(write_history(path, f"{arm}-{number}", 2 + number / 10))
    network = {"layers": 5, "block_size": 5, "context": "own", "shifted": False}
    network |= {"vocabulary": 90, "slots": "lookup", "normalised_features": False, "init": "target"}
    return json.dumps({"trained": trained, "network": network}), paths


@pytest.fixture(scope="module")
def losses(tmp_path_factory):
    folder = tmp_path_factory.mktemp("losses")
    found = write(folder, LOSSES)
    rows = [source for source, _ in found]
    run(
        block_statistics,
        settings=settings(rows, references=["dpace"], baselines=["lookup", "bigram"], paired=False),
        rounds=[paths["rounds"] for _, paths in found],
        loops=[paths["loops"] for _, paths in found],
        timings=[paths["timings"] for _, paths in found],
        folder=folder / "statistics",
    )
    trained, paths = histories(folder, LOSSES)
    names = ("lengths", "differences", "needed", "positions", "speed", "speed_differences")
    run(
        loss_exhibits,
        **{name: folder / "statistics" / f"{name}.parquet" for name in names},
        settings=trained,
        histories=paths,
        folder=folder / "exhibits",
    )
    return folder


@pytest.fixture(scope="module")
def retrace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("retrace")
    found = write(folder, RETRACE)
    rows = [source for source, _ in found]
    backbone = [(s, p) for s, p in found if s["arm"] == "backbone"]
    run(
        block_statistics,
        settings=settings(rows, [s for s, _ in backbone], references=["backbone", "none"],
                          baselines=[], paired=True),
        rounds=[paths["rounds"] for _, paths in found],
        texts=[paths["texts"] for _, paths in found],
        timings=[paths["timings"] for _, paths in found],
        probes=[paths["probes"] for _, paths in backbone],
        folder=folder / "statistics",
    )  # fmt: skip
    trained, paths = histories(folder, RETRACE)
    names = (
        "lengths",
        "differences",
        "needed",
        "positions",
        "speed",
        "speed_differences",
        "probes",
    )
    run(
        retrace_exhibits,
        **{name: folder / "statistics" / f"{name}.parquet" for name in names},
        settings=trained,
        histories=paths,
        folder=folder / "exhibits",
    )
    return folder


def exhibits(folder) -> set[str]:
    return {path.name for path in (folder / "exhibits").iterdir()}


def files(tables, figures) -> set[str]:
    names = {f"{stem}.{kind}" for stem in tables for kind in ("csv", "md", "tex")}
    return names | {f"{stem}.{kind}" for stem in figures for kind in ("svg", "pdf")}


def test_the_losses_study_makes_its_exhibits_and_says_what_is_separated(losses):
    tables = ["findings", "table_training", *(f"table{n}" for n in (1, 2, 3, 4, 5, 7, 8))]
    assert exhibits(losses) == files(tables, [f"figure{n}" for n in range(1, 5)])
    table = read_table(losses / "exhibits/table2.csv")
    own = table[(table["domain"] == "all") & (table["subset"] == "all prompts")]
    by = dict(zip(zip(own["arm"], own["mode"], strict=True), own["separated"], strict=True))
    assert by["ce_decay", "greedy"] == by["ce_decay", "warm"] == "yes"
    assert by["dpal", "greedy"] == "no"
    text = " ".join(read_table(losses / "exhibits/findings.csv")["statement"])
    assert "ce_decay emits fewer tokens a round than dpace in mode greedy" in text
    assert "dpal and dpace are not separated in mode greedy" in text
    assert "dpal emits more tokens a round than lookup (greedy +" in text
    assert "mode greedy: ce_decay 1." in text and "(faster)" in text and "(slower)" in text
    assert "times as many trainings and prompts" in text
    page = (losses / "exhibits/table_training.md").read_text(encoding="utf-8")
    said = (
        "5 layers, blocks of 5; not as published: vocabulary 90 (DFlash: whole), context own (DFlash: "
        "fused), slots lookup (DFlash: masks). They start from copies of the target's layers; what "
        "DFlash starts from is not known here"
    )
    assert said in page and "shifted" not in page and "second rounds" not in page
    expected = read_table(losses / "exhibits/table_training.csv").set_index("arm")["estimate"]
    assert all(expected["dpal"]) and not any(expected.drop("dpal"))
    for name, own in (("table2", False), ("table7", True), ("table8", True)):
        page = (losses / f"exhibits/{name}.md").read_text(encoding="utf-8")
        assert ("what is timed is decoded anew" in page) == own
    beaten = read_table(losses / "exhibits/table4.csv")
    assert set(beaten["against"]) == {"lookup", "bigram"}


def test_the_retrace_study_makes_its_exhibits(retrace):
    tables = ["findings", "table_training", "table8a", "table8b"]
    tables += [f"table{n}" for n in range(1, 8)]
    assert exhibits(retrace) == files(tables, [f"figure{n}" for n in range(1, 6)])
    table = read_table(retrace / "exhibits/table1.csv")
    row = table[(table["arm"] == "corrected_gated") & (table["domain"] == "all")].iloc[0]
    assert float(row["backbone_lower"]) > 0 and float(row["control_difference"]) > 0
    page = (retrace / "exhibits/table6.md").read_text(encoding="utf-8")
    assert "loop problems removed" in page and "decoded anew" not in page
    page = (retrace / "exhibits/table_training.md").read_text(encoding="utf-8")
    assert "Arms other than backbone: held-out tau is that of second rounds" in page
    assert "Their weights are kept by the least held-out loss" in page and "overlaps" not in page
    text = " ".join(read_table(retrace / "exhibits/findings.csv")["statement"])
    assert "corrected_gated emits more tokens a round than backbone" in text
    assert "among the draft's five best in 8" in text  # planted: 83%
    assert "points more the way of the target's own state" in text


def test_a_history_of_another_draft_is_refused(losses):
    trained, paths = histories(losses, LOSSES)
    names = ("lengths", "differences", "needed", "positions")
    inputs = {name: losses / "statistics" / f"{name}.parquet" for name in names}
    with pytest.raises(UserError, match="is the history of draft ce_decay-2, not of ce_decay-1"):
        run(loss_exhibits, **inputs, settings=trained, histories=[paths[1], paths[0], *paths[2:]],
            folder=losses / "none")  # fmt: skip
    with pytest.raises(UserError, match="need as many files"):
        run(block_statistics, settings=settings([], references=[], baselines=[], paired=False),
            rounds=[paths[0]], loops=[paths[0]], folder=losses / "none")  # fmt: skip


def card(folder, study: str, run_settings: dict, names) -> dict:
    inputs = {name: folder / "statistics" / f"{name}.parquet" for name in names}
    run(
        block_measurements,
        settings=json.dumps(
            {"study": study, "run": RUN, "published": CONDITIONS[study]} | run_settings
        ),
        published=ROOT / f"config/published/{study}.csv",
        **inputs,
        output=folder / "measurements.parquet",
    )
    rows = records.read(folder / "measurements.parquet", "measurements").to_pylist()
    cells = published.load(ROOT / f"config/published/{study}.csv")
    table = scorecard.compare([cells], rows, {"tokens": 9.0, "percent": 99.0, "x": 9.0})
    assert len(table) == len(cells) == len(rows)
    # Nothing of this run was measured as published, however wide a margin is.
    assert not set(table["verdict"]) & {"agrees", "differs"}
    return {(r["exhibit"], r["row"], r["column"]): r for r in table.to_dict("records")}


def test_cells_of_the_losses_are_directions_at_most(losses):
    names = ("lengths", "differences", "speed_differences")
    found = card(losses, "losses", {"losses": ARMS}, names)
    gain = found["D-PACE README", "Qwen3-4B main settings", "emitted length gain, low end"]
    assert gain["verdict"] == "same direction" and gain["measured"] > 10
    assert "target tiny, published Qwen/Qwen3-4B" in gain["condition"]
    assert "drafter with slots lookup, published masks; trained on own" in gain["condition"]
    assert "drafter with vocabulary 90, published whole" in gain["condition"]
    start = (
        "drafter starts from copies of the target's layers; of the published one that is not known"
    )
    assert start in gain["condition"]
    high = found["D-PACE README", "Qwen3-4B main settings", "emitted length gain, high end"]
    assert high["measured"] >= gain["measured"]
    level = found["D-PAL abstract", "D-PACE", "acceptance length T=1"]
    assert level["verdict"] == "unresolved" and "temperature 0.7, published 1" in level["condition"]
    other = found["D-PAL abstract", "D-PAL", "acceptance length T=1"]
    said = "that of D-PAL is not known"
    assert said in other["condition"] and said not in level["condition"]
    assert found["D-PACE README", "Qwen3-8B", "emitted length gain"]["verdict"] == "not measured"
    speed = found["D-PACE README", "Qwen3-4B main settings", "speedup gain, low end"]
    assert speed["verdict"] == "same direction"


def test_a_cell_stands_beside_the_arm_that_has_the_published_loss(losses):
    names = ("lengths", "differences", "speed_differences")
    key = "D-PAL abstract", "D-PACE", "acceptance length T=0"
    gain = "D-PACE README", "Qwen3-4B main settings", "emitted length gain, low end"
    alone = card(losses, "losses", {"losses": ARMS}, names)
    # Another smoothing under the label of another arm, after the published one: a level apart.
    both = ARMS | {"dpal": loss("dpace", smoothing=0.3)}
    found = card(losses, "losses", {"losses": both}, names)
    assert found[key]["measured"] == alone[key]["measured"]
    assert found[gain]["measured"] == alone[gain]["measured"]
    absent = card(
        losses, "losses", {"losses": ARMS | {"dpace": loss("dpace", smoothing=0.3)}}, names
    )
    assert absent[key]["verdict"] == absent[gain]["verdict"] == "not measured"
    assert "no D-PACE arm is known to be the published one" in absent[key]["why"]
    assert "is not, as published, in this experiment" in absent[gain]["why"]


def test_cells_of_retrace_are_directions_at_most(retrace):
    names = ("lengths", "differences", "speed", "speed_differences", "probes")
    options = {
        "benchmarks": {"GSM8K": "math", "MT-Bench": "chat"},
        "backbone": "backbone",
        "variants": {arm: None if arm == "backbone" else arm for arm in RETRACE.rates},
    }
    found = card(retrace, "retrace", options, names)
    gain = found["Section Main Results", "ReTrace vs DFlash", "relative gain in macro-average tau"]
    assert gain["verdict"] == "same direction" and gain["measured"] > 0
    assert "drafter with slots lookup, published masks" in gain["condition"]
    assert "trained on own, published Open-PerfectBlend" in gain["condition"]
    assert "drafter with layers" not in gain["condition"]
    assert "drafter with vocabulary 90, published whole" in gain["condition"]
    assert "drafter starts from copies of the target's layers" in gain["condition"]
    speedup = found["Table 2", "T=0/4B/ReTrace (16)", "GSM8K speedup"]
    assert speedup["verdict"] == "same direction"
    assert found["Table 3", "raw conditioning, gated", "MT-Bench tau"]["measured"] > 1
    assert found["Table 1", "Gap", "Overall cosine"]["measured"] == pytest.approx(0.25, abs=0.03)
    rank = found["Figure 2", "target-token rank 6-10", "cumulative coverage"]
    assert rank["measured"] == pytest.approx(97.2, abs=2)
    assert found["Table 4", "DFlash", "verify latency"]["measured"] == pytest.approx(12.0)
    assert found["Table 2", "T=0/8B/DFlash (16)", "GSM8K tau"]["verdict"] == "not measured"
    assert "no domain beside AIME25" in found["Table 2", "T=0/4B/DFlash (16)", "AIME25 tau"]["why"]
    assert found["DFlash Table 1", "T=1/4B/DFlash (16)", "Avg tau"]["measured"] > 1
