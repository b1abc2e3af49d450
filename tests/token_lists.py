"""Tokenizers of several kinds, small, and the lists of the laptop experiment."""

from __future__ import annotations

from draftscope.tokens.lists import Lists
from experiments import LAPTOP
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)
from transformers import PreTrainedTokenizerFast

LISTS = Lists.of(LAPTOP["tokens"])
TEXTS = [
    "Wait, that is not right. However, we can check it: 12 + 30 = 42, so the answer is 42.",
    "Let me verify the formula $\\frac{1}{2} x^2 + 3$ and then write `print(x)` below.",
    "def add(a, b):\n    return a + b  # the sum\n\nThis function adds two numbers.",
    "等等，我们检查一下：三加四等于七。但是 x 大于 3。",
    "Café déjà vu — naïve 🙂 emoji, don't stop; half-hearted checks and waiting.",
]


def byte_level(size: int = 420) -> PreTrainedTokenizerFast:
    """Byte-level BPE, trained on so little that long words and rare characters are split."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<s>", "</s>"],
        show_progress=False,
    )
    backend.train_from_iterator(TEXTS, trainer)
    backend.add_tokens([AddedToken("<think>", normalized=False)])
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>")


def sentencepiece(size: int = 200) -> PreTrainedTokenizerFast:
    """Unigram with byte fallback, decoded as SentencePiece models are: spaces are signs."""
    trained = Tokenizer(models.Unigram())
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=size, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>",
        show_progress=False,
    )  # fmt: skip
    trained.train_from_iterator([text for text in TEXTS if text.isascii()], trainer)
    pieces = [(piece, -5.0 - n / 50) for n, piece in enumerate(trained.get_vocab())]
    held = {piece for piece, _ in pieces}
    pieces = [(p, 0.0) for p in ("<unk>", "<s>", "</s>")] + [
        each for each in pieces if each[0] not in ("<unk>", "<s>", "</s>")
    ]
    pieces += [(f"<0x{byte:02X}>", -20.0) for byte in range(256)]
    pieces += [(sign, -8.0) for sign in "▁中🙂" if sign not in held]
    backend = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=True))
    backend.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
         decoders.Strip(" ", 1, 0)]
    )  # fmt: skip
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def word_pieces() -> PreTrainedTokenizerFast:
    """A tokenizer whose pieces say nothing of the spaces between them."""
    backend = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(cleanup=False)
    trainer = trainers.WordPieceTrainer(
        vocab_size=150, special_tokens=["[UNK]"], show_progress=False
    )
    backend.train_from_iterator(TEXTS, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]")
