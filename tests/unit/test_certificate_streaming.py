"""Certificates of streamed logits: what they are of whole distributions, in any type and any cut."""

import math

import numpy as np
import pytest
import torch
from bench_certificates import NINE
from draftscope import certificates
from draftscope.certificate_study import streaming
from draftscope.criteria import Criterion
from draftscope.sampling import BadLogits

CRITERIA = [Criterion.of(row) for row in NINE]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("width", [1, 2, 3, 50, 5000])
def test_streamed_logits_give_what_whole_distributions_give(width, dtype, monkeypatch):
    monkeypatch.setattr(streaming, "LARGEST_BLOCK", 2 * width)  # two rows at a time
    logits = (3 * torch.randn(7, width, generator=torch.Generator().manual_seed(width))).to(dtype)
    logits[2] = 0.0  # every token ties
    if width > 2:
        logits[0, 1] = -math.inf
        logits[1, 1:] = -math.inf  # one token has all
    found = np.concatenate(list(streaming.certify([logits[:3], logits[3:]], CRITERIA)))
    p = torch.softmax(logits.double(), -1).numpy()
    wanted = [certificates.of_criterion(p, criterion) for criterion in CRITERIA]
    assert np.allclose(found, np.stack(wanted, -1), rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("row", [[math.nan, 1.0], [math.inf, 1.0], [-math.inf, -math.inf]])
def test_logits_of_no_distribution_stop_the_stream(row):
    with pytest.raises(BadLogits):
        list(streaming.certify([torch.tensor([row])], CRITERIA))
