"""Rounding weights to a few bits, and drafts made so."""

import pytest
import torch
from draftscope import models
from draftscope.errors import UserError
from draftscope.models.round_to_nearest import round_groups
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import tiny_model_folder


def base_record(folder, name="tiny", **options):
    path = tiny_model_folder(folder / "files", **options)
    return models.resolve(name, {"kind": "local", "path": str(path)}, folder / name)


def row(**changes):
    return {"kind": "round_to_nearest", "base": "tiny", "bits": 3, "group_size": 32} | changes


@given(
    bits=st.integers(2, 8),
    symmetric=st.booleans(),
    values=st.lists(st.floats(-4, 4, width=32), min_size=16, max_size=16),
)
@settings(deadline=None)
def test_rounding_has_few_levels_and_a_bounded_error(bits, symmetric, values):
    weight = torch.tensor(values).reshape(2, 8)
    rounded = round_groups(weight, bits, 4, symmetric).reshape(-1, 4)
    for original, group in zip(weight.reshape(-1, 4), rounded, strict=True):
        if symmetric:
            step = original.abs().max() / (2 ** (bits - 1) - 1)
        else:
            span = original.max().clamp(min=0) - original.min().clamp(max=0)
            step = span / (2**bits - 1)
        # The zero point is rounded too: half a step for the value, half for the zero point.
        bound = step * (0.5 if symmetric else 1.0)
        assert ((group - original).abs() <= bound * 1.001 + 1e-30).all()
        assert len(group.unique()) <= 2**bits
        assert torch.equal(group[original == 0], original[original == 0])


def test_rounding_by_hand():
    weight = torch.tensor([[-3.0, -0.4, 0.6, 4.0]])
    # Asymmetric, 3 bits: step 1, zero point 3, levels -3 to 4.
    assert round_groups(weight, 3, 4, False).tolist() == [[-3.0, 0.0, 1.0, 4.0]]
    # Symmetric, 3 bits: step 4/3, levels -4 to 4.
    expected = torch.tensor([[-2.0, 0.0, 0.0, 3.0]]) * 4 / 3
    torch.testing.assert_close(round_groups(weight, 3, 4, True), expected)


def test_groups_are_rounded_apart():
    weight = torch.tensor([[0.1, 0.2, 100.0, 200.0]])
    together, apart = round_groups(weight, 3, 4, False), round_groups(weight, 3, 2, False)
    assert together[0, :2].tolist() == [0.0, 0.0]
    assert (apart[0, :2] - weight[0, :2]).abs().max() < 0.02


def test_linear_weights_are_rounded_and_embeddings_are_not(tmp_path):
    base = base_record(tmp_path)
    models.resolve("three", row(), tmp_path / "three", base)
    original = models.load(base, "cpu").model.state_dict()
    loaded = models.load(tmp_path / "three" / "model.json", "cpu")
    changed = {
        key for key, value in loaded.model.state_dict().items()
        if not torch.equal(value, original[key])
    }  # fmt: skip
    assert changed == {key for key in original if "proj" in key}
    assert loaded.condition("draft")["draft_quantization"] == (
        "round to nearest, 3-bit, group 32, asymmetric"
    )
    assert loaded.revision == f"{base['revision']} rtn3-g32-asymmetric"
    again = models.load(tmp_path / "three" / "model.json", "cpu").model.state_dict()
    assert all(torch.equal(value, again[key]) for key, value in loaded.model.state_dict().items())


def test_more_bits_are_nearer(tmp_path):
    base = base_record(tmp_path)
    ids = torch.arange(20, 60)[None]
    target = models.load(base, "cpu").model(ids).logits
    errors = []
    for bits in (2, 4, 8):
        record = models.resolve("q", row(bits=bits), tmp_path / str(bits), base)
        errors.append((models.load(record, "cpu").model(ids).logits - target).square().mean())
    assert errors[0] > 3 * errors[1] > 9 * errors[2] > 0


def test_the_base_is_found_from_the_record_wherever_both_are_moved(tmp_path):
    base = base_record(tmp_path / "a")
    models.resolve("three", row(), tmp_path / "a" / "three", base)
    (tmp_path / "a").rename(tmp_path / "b")
    # The local folder itself is named by its own path; only the records move together.
    (tmp_path / "a").mkdir()
    (tmp_path / "b" / "files").rename(tmp_path / "a" / "files")
    assert models.load(tmp_path / "b" / "three" / "model.json", "cpu").kind == "round_to_nearest"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"bits": 1}, "bits is 1, must be 2 to 8"),
        ({"bits": 9}, "bits is 9"),
        ({"group_size": 0}, "group_size is 0"),
        ({"base": "another"}, "another, not tiny"),
    ],
)
def test_bad_settings_are_named(tmp_path, changes, named):
    with pytest.raises(UserError, match=named):
        models.resolve("q", row(**changes), tmp_path, base_record(tmp_path))


def test_a_group_size_that_does_not_divide_names_one_that_does(tmp_path):
    record = models.resolve("q", row(group_size=48), tmp_path / "q", base_record(tmp_path))
    with pytest.raises(UserError, match=r"48 does not divide the width 64 .*; 32 does"):
        models.load(record, "cpu")


def test_a_base_without_weights_is_refused(tmp_path):
    lookup = {"kind": "prompt_lookup", "max_ngram": 3, "min_ngram": 1}
    base = models.resolve("tiny", lookup, tmp_path / "lookup")
    with pytest.raises(UserError, match="no weights to round"):
        models.resolve("q", row(), tmp_path / "q", base)
