"""Block drafters in the live loop: the law of the target, ends, and replay that agrees with it."""

import copy

import numpy as np
import pytest
import torch
from block_models import saved, tiny_network, tiny_target
from draftscope.drafters.block import BlockDraft
from draftscope.drafters.proposals import TextBlocks, proposal_row
from draftscope.drafters.retrace import VARIANTS, ReTrace
from draftscope.drafters.retrace_draft import RetraceDraft
from draftscope.errors import UserError
from draftscope.live import RULES, decode, open_decoder
from draftscope.live.run import run
from draftscope.replay import agreement, proposed_rounds
from draftscope.sampling import law as law_of
from draftscope.seeds import generator
from scipy.stats import chisquare

GREEDY = {"temperature": 0.0, "top_k": 0, "top_p": 1.0}
T1 = GREEDY | {"temperature": 1.0}
PROMPT = [1, 0, 3]
TOKENS = 2


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.inference_mode():
        yield


@pytest.fixture(scope="module")
def target():
    return tiny_target(4)


KINDS = {"fused": {}, "own": {"own": True}, "looked up": {"own": True, "looked_up": True}}


@pytest.fixture(scope="module", params=KINDS.values(), ids=KINDS.keys())
def draft(request, target, tmp_path_factory):
    network = tiny_network(target, **request.param)
    return saved(tmp_path_factory.mktemp("draft"), target, network)


@pytest.fixture(scope="module")
def narrow(target, tmp_path_factory):
    return saved(tmp_path_factory.mktemp("narrow"), target, tiny_network(target), [0, 2])


@pytest.fixture(scope="module")
def remembering(target, tmp_path_factory):
    """A drafter with a memory that does something."""
    torch.manual_seed(3)
    memory = ReTrace(16, "corrected_gated")
    torch.nn.init.normal_(memory.value.weight)
    network = tiny_network(target, own=True)
    return saved(tmp_path_factory.mktemp("memory"), target, network, None, memory)


def live(drafter, prompt, gamma, law, budget=40, key="live", **options):
    settings = {"eos_ids": frozenset(), "rng": generator(key)} | options
    return decode(drafter.target_decoder, drafter, prompt, gamma=gamma, law=law, budget=budget,
                  **settings)  # fmt: skip


def log(decoded):
    names = ("start", "offered", "accepted", "emitted")
    return {name: np.array([getattr(r, name) for r in decoded.rounds]) for name in names}


@pytest.fixture(scope="module")
def law_of_texts(target):
    """Probability of each text of TOKENS tokens after the prompt, [V] * TOKENS."""
    texts = np.stack(np.meshgrid(*[range(4)] * TOKENS, indexing="ij"), -1).reshape(-1, TOKENS)
    ids = torch.tensor([[*PROMPT, *text] for text in texts.tolist()])
    with torch.inference_mode():
        p = law_of(target.model(input_ids=ids).logits[:, len(PROMPT) - 1 : -1], **T1)
    return p.gather(-1, ids[:, len(PROMPT) :, None])[..., 0].prod(-1).double().numpy()


def fit(drafter, wanted, rule=None, gamma=2, texts=120, key="law"):
    seen = np.zeros(len(wanted))
    for i in range(texts):
        decoded = live(drafter, PROMPT, gamma, T1, TOKENS, rng=generator(key, i), rule=rule)
        seen[np.ravel_multi_index(decoded.token_ids, (4,) * TOKENS)] += 1
    due, kept = wanted / wanted.sum() * texts, wanted * texts >= 5
    cells = [np.append(x[kept], x[~kept].sum()) for x in (seen, due)]
    return chisquare(*cells).pvalue


@pytest.mark.parametrize(
    "way",
    [
        "argmax",
        "sampled",
        *(pytest.param(way, marks=pytest.mark.slow) for way in ("narrow", "memory")),
    ],
)
def test_block_drafts_keep_the_law_of_the_target(
    way, target, draft, narrow, remembering, law_of_texts
):
    drafter = {
        "argmax": lambda: BlockDraft(draft, target),
        "sampled": lambda: BlockDraft(draft, target, T1),
        "narrow": lambda: BlockDraft(narrow, target, T1 | {"temperature": 0.7}),
        "memory": lambda: RetraceDraft(remembering, target, T1),
    }[way]()
    assert fit(drafter, law_of_texts) > 1e-3


@pytest.mark.parametrize("fault", ["accepts too much", "says another q"])
def test_a_broken_rule_or_drafter_is_caught(fault, target, draft, narrow, law_of_texts):
    if fault == "accepts too much":
        assert fit(BlockDraft(draft, target), law_of_texts, RULES["typical"], texts=60) < 1e-6
        return

    class Misreporting(BlockDraft):
        """Draws from the slots' law and says that the tokens were drawn evenly."""

        def propose(self, count):
            block = super().propose(count)
            block.q = torch.full_like(block.q, 1 / block.q.shape[1])
            return block

    assert fit(Misreporting(narrow, target, T1), law_of_texts, texts=60) < 1e-6


@pytest.mark.parametrize("gamma", [1, 9])
def test_greedy_is_plain_greedy_token_for_token(gamma, target, draft, narrow, remembering):
    plain = open_decoder(target)
    accepted = 0
    for prompt in ([2], [3, 3, 1, 0, 2, 2]):
        options = {"law": GREEDY, "budget": 30, "eos_ids": frozenset(), "rng": generator("plain")}
        wanted = decode(plain, None, prompt, gamma=0, **options).token_ids
        for drafter in (
            BlockDraft(draft, target),
            BlockDraft(narrow, target),
            RetraceDraft(remembering, target),
        ):
            decoded = live(drafter, prompt, gamma, GREEDY, 30)
            assert decoded.token_ids == wanted
            accepted += log(decoded)["accepted"].sum()
            assert log(decoded)["offered"].max() == min(gamma, 4)  # block size 5
    assert accepted > 5


@pytest.mark.parametrize("law", [GREEDY, T1], ids=["greedy", "sampling"])
def test_replay_of_proposals_is_the_live_loop_round_for_round(law, target, draft, narrow):
    rounds = differ = 0
    for loaded in (draft, narrow):
        drafter, blocks = BlockDraft(loaded, target), TextBlocks(loaded, target)
        for prompt in ([2], [1, 0, 3], [0, 1, 0, 1]):
            for gamma in (2, 6):
                decoded = live(drafter, prompt, gamma, law, 25, key=f"replay {gamma}",
                               eos_ids=frozenset({3} if gamma == 2 else ()))  # fmt: skip
                drafted = blocks.propose(prompt, decoded.token_ids)
                assert drafted.shape == (len(decoded.token_ids), 4)
                ends = {"budget": decoded.budget, "stop_reason": decoded.stop_reason}
                found = agreement(drafted, decoded.token_ids)
                replayed = proposed_rounds((), decoded.token_ids, found, gamma, **ends)
                seen = log(decoded)
                assert all(np.array_equal(replayed[name], seen[name]) for name in seen)
                rounds += len(decoded.rounds)
                # Proposals of a neighbouring position are not what was drafted.
                wrong = agreement(np.roll(drafted, 1, axis=0), decoded.token_ids)
                moved = proposed_rounds((), decoded.token_ids, wrong, gamma, **ends)
                differ += not np.array_equal(moved["accepted"], seen["accepted"])
    assert rounds > 80 and differ > 2


def test_a_shorter_block_is_the_beginning_of_a_longer_one(target, draft, narrow):
    for loaded in (draft, narrow):
        drafter = BlockDraft(loaded, target)
        for text in ([2], [1, 0, 3, 3]):
            blocks = []
            for count in (1, 2, 3, 4, 20):
                drafter.start(text, generator("short"))
                blocks.append(drafter.propose(count).ids.tolist())
            assert all(blocks[-1][: len(block)] == block for block in blocks)
            assert len(blocks[-1]) == 4


def test_chunks_of_anchors_propose_what_one_pass_does(target, draft, monkeypatch):
    text = generator("chunks").integers(0, 4, 50).tolist()
    whole = TextBlocks(draft, target).propose(text[:4], text[4:])
    monkeypatch.setattr("draftscope.drafters.proposals.ATTENTION_SCORES", 2 * 15 * 65)
    small = TextBlocks(draft, target)
    assert 1 <= small._together(50) < 5
    assert np.array_equal(small.propose(text[:4], text[4:]), whole)


def test_logits_that_are_no_numbers_stop_with_prompt_and_position(target, narrow):
    damaged = copy.deepcopy(narrow)
    damaged.model.network.norm.weight[0] = torch.nan
    row = {"prompt_id": "p7", "sample": 2, "prompt_token_ids": PROMPT, "token_ids": [1, 2]}
    said = "prompt p7, sample 2: NaN or infinity in the logits of blocks from generated position 0"
    with pytest.raises(UserError, match=said):
        proposal_row(TextBlocks(damaged, target), row)


def test_a_draft_vocabulary_gives_ids_of_the_target(target, narrow):
    drafter = BlockDraft(narrow, target, T1)
    drafter.start(PROMPT, generator("narrow"))
    block = drafter.propose(4)
    assert set(block.ids.tolist()) <= {0, 2} and drafter.width == 4
    assert block.q.shape == (4, 4) and not block.q[:, [1, 3]].any()
    assert torch.allclose(block.q.sum(-1), torch.ones(4))


def test_the_end_of_text_and_of_the_context_end_a_block(tmp_path):
    target = tiny_target(4, max_positions=12)
    loaded = saved(tmp_path, target, tiny_network(target))
    drafter = BlockDraft(loaded, target)
    decoded = live(drafter, [1, 0, 3, 2, 2], 4, GREEDY, budget=30)
    assert decoded.stop_reason == "context" and len(decoded.token_ids) == 7
    assert all(r.start + r.offered <= 7 for r in decoded.rounds)
    last = decoded.token_ids[3]
    ended = live(drafter, [1, 0, 3, 2, 2], 4, GREEDY, budget=30, eos_ids=frozenset({last}))
    first = decoded.token_ids.index(last)
    assert ended.token_ids == decoded.token_ids[: first + 1] and ended.stop_reason == "eos"


def test_the_log_names_the_rule_and_where_the_prompt_was_read(target, draft):
    class Rendered:
        token_ids, sha256 = PROMPT, "hash"

    for law, drafted, rule in (
        (T1, None, "exact_match"),
        (T1, T1, "speculative_sampling"),
        (GREEDY, None, "greedy"),
    ):
        drafter = BlockDraft(draft, target, drafted)
        target_with_text = target.__class__(**vars(target) | {"tokenizer": Words()})
        out = run(target_with_text, drafter, [("p", Rendered())], gamma=3, law=law, budget=8,
                  run_seed=1, domain="d")  # fmt: skip
        assert {row["rule"] for row in out.rounds} == {rule}
        assert all(row["lossless"] for row in out.rounds)
        # Two prompt tokens before any draft, then the last of them with three drafted ones.
        assert out.timings[0]["verify_tokens"] == 2 + 1 + 3
        assert out.timings[0]["draft_seconds"] >= 0


class Words:
    def decode(self, ids, **_):
        return " ".join(map(str, ids))


def test_another_target_or_loop_is_refused(target, draft):
    for other, said in (
        (tiny_target(4, name="other"), "with name target, not for other"),
        (tiny_target(4, seed=9), "with revision seed 0, not for target with revision seed 9"),
    ):
        for reader in (BlockDraft, TextBlocks):
            with pytest.raises(UserError, match=said):
                reader(draft, other)
    with pytest.raises(UserError, match="cannot run by itself"):
        open_decoder(draft)
    with pytest.raises(ValueError, match="decode with target_decoder"):
        decode(open_decoder(target), BlockDraft(draft, target), PROMPT, gamma=2, law=GREEDY,
               budget=9, eos_ids=frozenset(), rng=generator("x"))  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS)
def test_retrace_is_dflash_bit_for_bit_at_the_start(variant, target, draft, tmp_path):
    memory = ReTrace(16, variant)
    loaded = saved(tmp_path, target, draft.model.network, None, memory)
    new, plain = RetraceDraft(loaded, target, T1), BlockDraft(draft, target, T1)
    same = 0
    for key in range(3):
        q = []
        for drafter in (new, plain):
            seen = []
            propose = drafter.propose

            def kept(count, propose=propose, seen=seen):
                seen.append(propose(count))
                return seen[-1]

            drafter.propose = kept
            live(drafter, PROMPT, 4, T1, 25, rng=generator("bits", key))
            del drafter.propose
            q.append([block.q for block in seen])
        same += len(q[0]) == len(q[1]) and all(map(torch.equal, *q))
    assert same == (0 if variant == "overwrite" else 3)


def test_what_is_carried_is_the_suffix_behind_the_rejection(target, remembering):
    drafter = RetraceDraft(remembering, target)
    text = list(PROMPT)
    drafter.start(text, generator("carry"))
    decoder, cases = drafter.target_decoder, set()
    for step in range(40):
        count = 1 + step % 4
        block = drafter.propose(count)
        states = drafter._states.clone()
        logits = decoder.extend(torch.cat((torch.tensor(text[-1:]), block.ids)), count + 1)
        final = target.model.get_output_embeddings()
        best = logits.argmax(-1).tolist()
        accepted = step * 7 % (count + 1)  # whatever the target says
        emitted = [*block.ids[:accepted].tolist(), best[accepted]]
        text += emitted
        decoder.crop(len(text) - 1)
        drafter.extend(emitted)
        rejected = accepted + 1
        if rejected >= count:  # all accepted, or the last one rejected
            assert drafter.carried is None
            cases.add("reset")
            continue
        cases.add(count - rejected)
        draft, aim, aligned = (part[0] for part in drafter.carried)
        for slot in range(5):
            assert bool(aligned[slot]) == (1 <= slot <= count - rejected)
            if aligned[slot]:
                assert torch.equal(draft[slot], states[rejected + slot])
                # The state that scored it gives the logits that judged it.
                scored = final(aim[slot])
                assert torch.allclose(scored, logits[rejected + slot - 1], atol=1e-5)
            else:
                assert not draft[slot].any() and not aim[slot].any()
    assert cases == {"reset", 1, 2, 3}
