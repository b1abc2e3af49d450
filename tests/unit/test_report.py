"""The report is one file, claims what the intervals allow, and lets no text become markup."""

import json
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from draftscope import records
from draftscope.errors import UserError
from draftscope.exhibits import published, report, scorecard, summary, tables

ROOT = Path(__file__).parents[2]
EVIL = '</script><script>alert("x")</script> & <img src=http://a.b/c>'
SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"><metadata>'
    '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Figure {n}</dc:title>'
    "<dc:description>What it\n shows.</dc:description></rdf:RDF></metadata>"
    '<g id="same"><script>alert(1)</script></g></svg>'
)
VOID = {"meta", "img", "input", "br", "link", "hr"}


class Page(HTMLParser):
    """Collects what a browser would fetch, run and number."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids, self.sources, self.tags, self.open, self.words = [], [], [], [], []
        self.alts, self.links = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        self.ids += [values["id"]] if "id" in values else []
        self.sources += [values[k] for k in ("src", "srcset", "data", "action") if k in values]
        self.links += [values["href"]] if "href" in values else []
        if tag == "img":
            self.alts.append(values.get("alt"))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def condition(domain, mode):
    return {
        "target": "big", "domain": domain, "mode": mode, "dtype": "float32",
        "template": {"chat_template": True}, "law": {"temperature": 0.0},
    }  # fmt: skip


def trajectory(number, status="ok", reason=None, tokens=4):
    ok = status == "ok"
    return {
        "prompt_id": f"p{number}", "sample": 0, "status": status, "reason": reason,
        "prompt_token_ids": [1] * ok, "token_ids": [1] * tokens * ok, "budget": 4,
        "stop_reason": "budget" if ok else None, "stop_token_id": None,
        "rendered_sha256": "0", "text": "x",
    }  # fmt: skip


def token(position, role, **more):
    base = {"position": position, "id": 1, "role": role, "round": 0, "p": 0.5, "q": 0.25}
    return base | {"draft": None} | more


def best(domain, separation, difference, **more):
    """A row of the draft-choice table."""
    row = {"domain": domain, "mode": "greedy", "text": "all", "draft": "small", "draft_length": 5}
    row |= dict(zip(("acceptance_length", "acceptance_length_lower", "acceptance_length_upper"),
                    (2.5, 2.3, 2.7), strict=True))  # fmt: skip
    row |= {"speedup": 1.1, "speedup_lower": 0.9, "speedup_upper": 1.3}
    row |= {"runner_up": "lookup", "runner_up_length": 3, "difference": difference}
    row |= {"difference_lower": difference - 0.2, "difference_upper": difference + 0.2}
    return row | {"separation": separation} | more


@pytest.fixture
def results(tmp_path):
    """Result files of a small experiment, as the workflow leaves them."""
    folder = tmp_path / "results"
    for domain, rows in (
        ("math", [trajectory(0), trajectory(1)]),
        ("chat", [trajectory(0), trajectory(1, "skipped", "prompt is empty")]),
    ):
        path = folder / "trajectories" / domain / "greedy" / "0000.parquet"
        records.write(path, rows, "trajectories", condition(domain, "greedy"), {"seed": 7})
    frame = pd.DataFrame({"configuration": [EVIL, "b"], "difference": [0.5, None],
                          "reason": ["", "one prompt"]})  # fmt: skip
    for name in ("table1", "table10", "table2"):
        tables.write_table(frame, folder / "exhibits/position" / name, caption=f"About {name}")
    for number in (1, 2):
        with records.atomic(folder / f"exhibits/position/figure{number}.svg") as file:
            file.write(SVG.replace("{n}", str(number)))
    choice = pd.DataFrame([best("math", "clear", 0.3), best("chat", "not separated", 0.1)])
    tables.write_table(choice, folder / "exhibits/choice/choice", caption="Choice")
    cells = published.load(ROOT / "config" / "published" / "position.csv")
    measured = [
        {
            "study": "position", "exhibit": "Table 1", "row": row, "column": "def1 difference",
            "value": value, "lower": value - 0.02, "upper": value + 0.02, "unit": "ratio",
            "n": 40, "condition_matches": False, "condition_note": "another target " + EVIL,
            "missing_reason": None,
        }
        for row, value in (("same/greedy", 0.05), ("same/sample", 0.01), ("xfam/greedy", -0.05))
    ]  # fmt: skip
    card = scorecard.compare([cells], measured, {})
    scorecard.write(card, folder / "scorecard.csv", folder / "scorecard.md", "Scorecard")
    spans = [
        {"text": EVIL + "\n", "partial": False, "tokens": [token(0, "accepted")]},
        {"text": "🙂", "partial": True, "tokens": [token(1, "accepted"), token(2, "bonus")]},
        {"text": "x", "partial": False, "tokens": [token(3, "correction", draft=EVIL, round=1)]},
        {"text": "y", "partial": False,
         "tokens": [token(4, "not drafted", p=None, q=None, round=None)]},
    ]  # fmt: skip
    view = {"prompt_id": "p0", "sample": 0, "prompt": EVIL, "tokens": 5, "shown": 5,
            "spans": spans}  # fmt: skip
    group = {"target": "big", "draft": "small", "domain": "math", "mode": "greedy",
             "rule": "greedy", "law": {}, "draft_length": 5, "views": [view, view]}  # fmt: skip
    records.write_json(folder / "viewer.json", {"groups": [group]})
    return folder


def build(folder, **settings):
    return report.build(
        {"title": "A <b>title</b>", "studies": {"position": "Position"},
         "headline": {"position": {"exhibit": "Table 1", "title": "Second half minus first"}},
         "not_measured": ["Speed."]} | settings,
        sorted((folder / "exhibits").rglob("*.*")),
        folder / "scorecard.csv",
        folder / "viewer.json",
        sorted((folder / "trajectories").rglob("*.parquet")),
    )  # fmt: skip


def test_case_71_a_copied_results_folder_is_enough(results, tmp_path):
    copy = tmp_path / "elsewhere"
    shutil.copytree(results, copy)
    first = build(results)
    shutil.rmtree(results)
    assert build(copy) == first


def test_the_page_is_self_contained_and_well_formed(results):
    page = Page(build(results))
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert page.sources and all(s.startswith("data:image/svg+xml;base64,") for s in page.sources)
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)
    assert page.tags.count("script") == 1 and page.tags.count("img") == 2
    assert page.alts == ["Figure 1. What it shows.", "Figure 2. What it shows."]
    assert "nan" not in page.text.lower().split() and "None" not in page.text.split()


def test_untrusted_text_stays_text(results):
    page = Page(build(results))
    assert page.text.count(EVIL) >= 5
    assert "b" not in [tag for tag in page.tags if tag == "title"]
    assert "A <b>title</b>" in page.text


def test_the_escaping_is_what_protects(results, monkeypatch):
    environment = report.jinja2.Environment

    def careless(**options):
        return environment(**(options | {"autoescape": False}))

    monkeypatch.setattr(report.jinja2, "Environment", careless)
    # The injected tags are then seen by the same parser that found none above.
    parser = HTMLParser()
    found = []
    parser.handle_starttag = lambda tag, attrs: found.append((tag, dict(attrs).get("src")))
    parser.feed(build(results))
    assert ("img", "http://a.b/c") in found


def test_the_summary_says_what_the_intervals_say(results):
    text = Page(build(results)).text
    assert "3 trajectories with 12 generated tokens in 2 domains and 1 decoding mode" in text
    assert "1 prompt skipped" in text
    assert "same/greedy, def1 difference: 0.050 [0.030, 0.070] over 40 prompts lies above 0" in text
    assert "same/sample, def1 difference: 0.010 [-0.010, 0.030] over 40 prompts cannot be told" in (
        text
    )
    assert "xfam/greedy, def1 difference: -0.050 [-0.070, -0.030] over 40 prompts lies below 0" in (
        text
    )
    assert "none can confirm or refute a published value" in text
    assert "math, greedy: small at draft length 5 is predicted fastest: speedup" in text
    assert "1.10 [0.90, 1.30], which cannot be told from 1 at this size" in text
    assert "clearly ahead of lookup at 3 (difference +0.300 [+0.100, +0.500])" in (text)
    assert "these prompts do not separate it from lookup at 3" in text


def test_a_study_may_say_its_own_sentences(results):
    frame = pd.DataFrame({"claim": ["a", "b"], "statement": [f"They disagree {EVIL}.", ""]})
    tables.write_table(frame, results / "exhibits/domains/claims", caption="Claims")
    about = {"domains": {"title": "Where they disagree", "statements": "claims"}}
    assert f"They disagree {EVIL}." in Page(build(results, headline=about)).text
    about["domains"]["statements"] = "nowhere"
    assert "Where they disagree" not in Page(build(results, headline=about)).text


def test_counts_skips_and_what_is_missing_are_listed(results):
    text = Page(build(results)).text
    assert "prompt is empty: 1 prompt (1 trajectory) in chat, greedy (big): p1" in text
    assert "Speed." in text
    assert "position: 76 published numbers, outside what this experiment measures" in text
    assert "seed 7" in text and "chat_template yes" in text
    assert "log_p" in text and "scorecard.csv" in text


def test_case_20_skipped_prompts_are_counted_once_and_named(tmp_path):
    paths = []
    for mode in ("greedy", "sample"):
        rows = [trajectory(n, "skipped", "empty prompt") for n in range(7)]
        rows += [
            trajectory(n, "skipped", f"its {500 + n} tokens fill the model's context")
            for n in (8, 9)
        ]
        rows += [rows[0] | {"sample": 1}]
        paths.append(tmp_path / f"{mode}.parquet")
        records.write(paths[-1], rows, "trajectories", condition("math", mode))
    text = Page(report.build({}, [], None, None, paths)).text
    assert (
        "empty prompt: 7 prompts (16 trajectories) in math, greedy, sample (big): "
        "p0 , p1 , p2 , p3 , p4 and 2 more"
    ) in text
    assert (
        "its N tokens fill the model's context: 2 prompts (4 trajectories) in math, greedy, "
        "sample (big): p8 , p9"
    ) in text
    assert (
        "0 trajectories with 0 generated tokens in 1 domain and 2 decoding modes; 9 prompts "
        "skipped (20 trajectories): empty prompt; its N tokens fill the model's context."
    ) in text
    only = trajectory(1, "skipped", "its 501 tokens fill the model's context")
    records.write(paths[0], [only], "trajectories", condition("math", "greedy"))
    assert "its 501 tokens fill" in Page(report.build({}, [], None, None, paths[:1])).text


def test_an_interval_is_shown_behind_its_number():
    shown = tables.ShownTable(
        "C", ["name", "difference", "lower", "upper", "lower", "n"],
        [False, True, True, True, True, True],
        [["a", "+0.1", "-0.1", "+0.3", "7", "5"], ["b", "–", "–", "–", "8", "6"]], ["note"],
    )  # fmt: skip
    joined = report.with_intervals(shown)
    assert joined.columns == ["name", "difference", "lower", "n"]
    assert joined.rows == [["a", "+0.1 [-0.1, +0.3]", "7", "5"], ["b", "–", "8", "6"]]
    assert joined.numeric == [False, True, True, True] and joined.notes == ["note"]


def test_exhibits_come_in_reading_order(results):
    page = Page(build(results))
    shown = [name for name in page.ids if name.startswith("position-")]
    assert shown == [f"position-{n}" for n in ("table1", "table2", "table10", "figure1", "figure2")]


def test_the_report_does_without_what_an_experiment_lacks(results):
    text = report.build({}, [], None, None, [])
    page = Page(text)
    assert "Draft acceptance" in page.text and "Scorecard" not in page.text


@pytest.mark.parametrize(
    ("value", "lower", "upper", "said"),
    [
        (1.0, 0.5, 1.5, "lies above 0"),
        (-1.0, -1.5, -0.5, "lies below 0"),
        (1.0, 0.0, 2.0, "cannot be told from 0 at this size"),
        (1.0, -0.5, 2.5, "cannot be told from 0 at this size"),
        (1.0, None, None, "has no interval, so it shows no direction"),
    ],
)
def test_a_direction_needs_an_interval_on_one_side(value, lower, upper, said):
    assert summary.direction(value, lower, upper) == said


def sentence(**changes):
    row = {name: str(value) for name, value in (best("math", "clear", 0.3) | changes).items()}
    (found,) = summary.choice(pd.DataFrame([row]))
    return found


def test_the_choice_is_told_as_far_as_it_goes():
    assert sentence(speedup_lower=1.05).count("lies above 1") == 1
    assert sentence(speedup_upper=0.99).count("lies below 1") == 1
    assert "has no interval" in sentence(speedup_lower="", speedup_upper="")
    assert "the gap to lookup at 3 is negligible" in sentence(separation="negligible")
    assert sentence(runner_up="").endswith("; there is no comparison with a runner-up.")
    assert sentence(speedup="", reason="no round") == "math, greedy: no prediction (no round)."
    assert summary.choice(pd.DataFrame([{"domain": "math"}])) == []
    looped = pd.DataFrame([best("math", "clear", 0.3, text="loops removed")]).astype(str)
    assert summary.choice(looped) == []


def test_bad_files_are_named(tmp_path):
    (tmp_path / "figure1.svg").write_text("<svg")
    with pytest.raises(UserError, match="figure1.svg is not an SVG drawing"):
        report.build({}, [tmp_path / "figure1.svg"], None, None, [])
    (tmp_path / "viewer.json").write_text("[]")
    with pytest.raises(UserError, match="not the token viewer's file"):
        report.build({}, [], None, tmp_path / "viewer.json", [])
    with pytest.raises(UserError, match="absent.csv does not exist"):
        report.build({}, [], tmp_path / "absent.csv", None, [])


def test_the_command_writes_the_page(results, tmp_path):
    command = [
        sys.executable, str(ROOT / "scripts" / "report.py"),
        "--settings", json.dumps({"title": "T", "schemas": ["draftscope.exhibits.scorecard"]}),
        "--exhibits", *map(str, sorted((results / "exhibits").rglob("*.*"))),
        "--scorecard", str(results / "scorecard.csv"), "--viewer", str(results / "viewer.json"),
        "--trajectories", *map(str, sorted((results / "trajectories").rglob("*.parquet"))),
        "--output", str(tmp_path / "report.html"),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    assert "condition_note" in Page((tmp_path / "report.html").read_text(encoding="utf-8")).text
    command[3] = json.dumps({"tittle": "T"})
    refused = subprocess.run(command, check=False, capture_output=True, text=True)
    assert refused.returncode == 2 and "tittle" in refused.stderr
