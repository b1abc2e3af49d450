"""Do prompts, budgets and timed passes of the live loop fit the contexts of its models?"""

from __future__ import annotations

from collections.abc import Mapping

from draftscope import prompts
from draftscope.doctor.findings import NOTE, OK, PROBLEM, Findings
from draftscope.doctor.models import Known, of_base
from draftscope.resolved import Resolved


def check_live(experiment: Resolved, known: Mapping[str, Known], findings: Findings) -> None:
    """What the `lossless` block decodes and times, against each target and draft of its pairs."""
    block, live = experiment.settings.lossless, experiment.live
    if live.problem or "lossless" not in experiment.settings.studies:
        return
    domain = block.domain
    budgets = [block.max_new_tokens, block.equivalence.max_new_tokens]
    budgets += [block.divergence.max_new_tokens] if block.divergence else []
    wanted = block.most_prompts
    with findings.asking("live loop", domain):
        rows = prompts.collect({"domain": domain, **live.domains[domain]}, 0, wanted)
        template = live.domains[domain].get("template", {"chat_template": True})
        for target in dict.fromkeys(pair["target"] for pair in live.pairs.values()):
            model = of_base(target, experiment.models, known)
            if model is None:
                findings.add("live loop", target, NOTE, f"{target} is not there yet")
                continue
            longest = max(len(prompts.render(model, row, template).token_ids) for row in rows)
            drafts = [pair["draft"] for pair in live.pairs.values() if pair["target"] == target]
            for name in dict.fromkeys([target, *drafts]):
                reader = of_base(name, experiment.models, known)
                if reader is not None and reader.max_positions is not None:
                    size = longest, max(budgets)
                    _fits(name, reader.max_positions, size, name == target, findings)
            _passes(experiment, target, model, findings)


def _fits(name: str, room: int, size: tuple[int, int], target: bool, findings: Findings) -> None:
    prompt, budget = size
    said = f"prompts of up to {prompt} tokens and a budget of {budget}"
    if prompt + budget <= room:
        verdict, end = OK, f"fit the context of {name}, {room}"
    elif target and prompt < room:
        verdict, end = NOTE, f"end at the context of {name}, {room}"
    else:
        verdict = PROBLEM
        end = f"are more than the context of {name}, {room}; " + (
            f"max_new_tokens can be {room - prompt}" if prompt < room else "a prompt fills it"
        )
    findings.add("live loop", name, verdict, f"{said} {end}")


def _passes(experiment: Resolved, target: str, model: Known, findings: Findings) -> None:
    timed = experiment.settings.lossless.verify_latency
    most, room = timed.context + max(timed.tokens), model.max_positions
    said = f"a context of {timed.context} and a pass of {max(timed.tokens)} tokens"
    if room is None or most <= room:
        findings.add("verify latency", target, OK, f"{said} fit {target}")
    else:
        nearest = room - max(timed.tokens)
        findings.add(
            "verify latency", target, PROBLEM,
            f"{said} are more than the {room} positions of {target}; "
            + (f"the longest context is {nearest}" if nearest > 0 else "time fewer tokens"),
        )  # fmt: skip
