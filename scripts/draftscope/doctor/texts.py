"""Do prompts and budgets fit the contexts of the models that read them?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from draftscope import prompts
from draftscope.doctor.findings import NOTE, OK, PROBLEM, Findings
from draftscope.doctor.models import Known
from draftscope.resolved import Resolved


@dataclass(frozen=True)
class Text:
    """The text of a target in a domain and mode: how much of it there may be, in tokens."""

    target: str
    domain: str
    mode: str
    prompts: int
    samples: int
    longest_prompt: int
    prompt_tokens: int
    budget: int

    @property
    def tokens(self) -> int:
        """Most tokens that are generated."""
        return self.prompts * self.samples * self.budget

    @property
    def longest(self) -> int:
        return self.longest_prompt + self.budget


def check_texts(experiment: Resolved, known: Mapping[str, Known], findings: Findings) -> list[Text]:
    """Render the prompts of every generated text and compare lengths with contexts.

    Texts whose target or prompts are not there yet are left out, with a note.
    """
    rows: dict[str, list[dict[str, Any]]] = {}
    texts = []
    for domain, row in experiment.domains.items():
        with findings.asking("prompts", domain):
            wanted = experiment.use(domain).prompts
            rows[domain] = prompts.collect({"domain": domain, **row}, 0, wanted)
            languages = sorted({item["language"] for item in rows[domain]})
            findings.add("prompts", domain, OK, f"{wanted} prompts, {', '.join(languages)}")
    for target in experiment.targets:
        for domain, items in rows.items():
            if target not in known:
                findings.add("context", f"{target}, {domain}", NOTE, f"{target} is not there yet")
                continue
            with findings.asking("context", f"{target}, {domain}"):
                found = _text(experiment, known[target], domain, items)
                _fits(experiment, found, known, findings)
                for mode, law in experiment.modes.items():
                    if law["imported"] is None:
                        own = vars(found) | {"mode": mode, "samples": law["samples"]}
                        texts.append(Text(**own))
    return texts


def _text(experiment: Resolved, target: Known, domain: str, rows: list[dict[str, Any]]) -> Text:
    template = experiment.domains[domain].get("template", {"chat_template": True})
    lengths = [len(prompts.render(target, row, template).token_ids) for row in rows]
    budget = experiment.use(domain).max_new_tokens
    return Text(target.name, domain, "", len(rows), 1, max(lengths), sum(lengths), budget)


def _fits(experiment: Resolved, text: Text, known: Mapping[str, Known], findings: Findings) -> None:
    subject = f"{text.target}, {text.domain}"
    said = f"prompts of up to {text.longest_prompt} tokens and a budget of {text.budget}"
    room = known[text.target].max_positions
    if room is not None and text.longest_prompt >= room:
        findings.add(
            "context", subject, PROBLEM,
            f"{said}: a prompt fills the context of {text.target}, {room}; it would be skipped",
        )  # fmt: skip
    elif room is not None and text.longest > room:
        findings.add(
            "context", subject, NOTE,
            f"{said}: texts end at the context of {text.target}, {room}, before their budget",
        )  # fmt: skip
    else:
        findings.add("context", subject, OK, f"{said} fit the context of {text.target}, {room}")
    reach = text.longest if room is None else min(text.longest, room)
    for pair in experiment.pairs.values():
        draft = known.get(pair["draft"])
        if pair["target"] != text.target or draft is None or draft.max_positions is None:
            continue
        if reach > draft.max_positions:
            findings.add(
                "context", f"{draft.name}, {text.domain}", PROBLEM,
                f"texts of up to {reach} tokens are more than the context of draft {draft.name}, "
                f"{draft.max_positions}: scoring would stop; lower max_new_tokens to "
                f"{max(1, draft.max_positions - text.longest_prompt)}",
            )  # fmt: skip
