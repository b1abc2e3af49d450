"""llama.cpp as this project uses it: open a GGUF file, compare its tokenizer, change its file type.

Only functions of llama.cpp's own interface are called (through the package llama-cpp-python): the
package's high-level class keeps one cache of its own, cuts it by rules of its own, and copies the
logits of every token it reads.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
import logging
import weakref
from pathlib import Path
from types import ModuleType
from typing import Any

from draftscope import extras
from draftscope.errors import UserError

log = logging.getLogger(__name__)

_ERROR = 4  # of ggml_log_level
# Texts on which tokenizers of the same vocabulary part: digits, runs of spaces, accents, scripts
# without spaces, characters of several tokens, line ends, code, contractions.
PROBES = (
    "Café déjà vu — 123",
    "x  10",
    "It's 3.14159, isn't it?  WE'LL see.",
    "def f(x):\n\treturn x ** 2  # 1,000,000\n\n\n",
    "你好，世界。 こんにちは",
    "🙂 naïve façade 👩‍👩‍👧",
    "  two spaces before, and three after   ",
    "http://example.org/a_b?c=1&d=%20#e",
)


def version() -> str:
    """The installed version of llama-cpp-python."""
    return importlib.metadata.version("llama-cpp-python")


@functools.cache
def library() -> ModuleType:
    """The binding, with llama.cpp's own messages turned into log records.

    Raises:
        UserError: it is not installed; the line names the package and the command.
    """
    extras.require("llama_cpp", "in llama.cpp")
    import llama_cpp

    @llama_cpp.llama_log_callback
    def message(level: int, text: bytes, _: Any) -> None:
        line = text.decode(errors="replace").rstrip()
        if line.strip("."):
            log.log(logging.WARNING if level == _ERROR else logging.DEBUG, "llama.cpp: %s", line)

    llama_cpp.llama_log_set(message, ctypes.c_void_p(0))
    llama_cpp.draftscope_callback = message  # or it would be freed under llama.cpp's hands
    llama_cpp.llama_backend_init()
    return llama_cpp


class GgufModel:
    """A GGUF file opened by llama.cpp; several decoders may share it.

    Attributes:
        path: the file; of a split one, its first part.
        width: how many logits there are.
        max_positions: tokens of the longest text it was made for.
        cannot_step_back: why its memory cannot be cut at any token; None when it can.
        pointer: for llama.cpp's functions; freed with this object.
    """

    def __init__(self, path: str | Path, name: str, offload: bool = False) -> None:
        """Open the file.

        Args:
            name: for messages.
            offload: put all layers on the GPUs that llama.cpp was built for.

        Raises:
            UserError: llama.cpp is not installed or cannot read the file.
        """
        self.path, self.name = Path(path), name
        llama = library()
        options = llama.llama_model_default_params()
        options.n_gpu_layers = -1 if offload else 0
        self.pointer = llama.llama_model_load_from_file(str(path).encode(), options)
        if not self.pointer:
            raise UserError(
                f"model {name}: llama.cpp (llama-cpp-python {version()}) cannot read {self.path}; "
                "the file is damaged, or its architecture is newer than this version"
            )
        weakref.finalize(self, llama.llama_model_free, self.pointer)
        self._vocabulary = llama.llama_model_get_vocab(self.pointer)
        self.width = int(llama.llama_vocab_n_tokens(self._vocabulary))
        self.max_positions = int(llama.llama_model_n_ctx_train(self.pointer))
        self.cannot_step_back = self._memory()
        self._reader: Any = None

    def _memory(self) -> str | None:
        llama = library()
        if llama.llama_model_is_recurrent(self.pointer):
            return "its memory is a recurrent state"
        if llama.llama_model_is_hybrid(self.pointer):
            return "part of its memory is a recurrent state"
        if not llama.llama_model_has_decoder(self.pointer):
            return "it does not generate text"
        return None

    def open_decoder(self, loaded: Any) -> Any:
        """A decoder of this model with a cache of its own, for `live.model.open_decoder`."""
        from draftscope.live.llama_cpp import LlamaDecoder

        return LlamaDecoder(loaded)

    def unread(self, loaded: Any, token_ids: Any) -> Any:
        """What `logits.hidden_states` gives for this model: logits that are made when asked for."""
        from draftscope.live.llama_cpp import Unread

        if self._reader is None:
            self._reader = self.open_decoder(loaded)
        return Unread(self._reader, token_ids)

    def token_text(self, token_id: int) -> str:
        """The string of an id as the file writes it (byte-level: a leading space is "Ġ")."""
        text = library().llama_vocab_get_text(self._vocabulary, token_id)
        return text.decode(errors="replace")

    def tokenize(self, text: str) -> list[int]:
        """Ids of a plain text: no special tokens are added, and none are recognised in it."""
        raw = text.encode()
        room = len(raw) + 8
        ids = (ctypes.c_int32 * room)()
        found = library().llama_tokenize(self._vocabulary, raw, len(raw), ids, room, False, False)
        if found < 0:
            raise RuntimeError(f"{self.path}: {text!r} has {-found} tokens, more than its bytes")
        return list(ids[:found])

    def check_tokenizer(self, tokenizer: Any) -> None:
        """Check that the file means by every id what the pinned tokenizer means by it.

        Texts are tokenized by the pinned tokenizer alone. But a file made from another vocabulary
        would decode another text in silence, and one that splits otherwise was made for another
        tokenizer.

        Args:
            tokenizer: of transformers.

        Raises:
            UserError: names the first id that differs, or the probe that is split otherwise.
        """
        known = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
        if self.width < len(known):
            raise UserError(
                f"model {self.name}: {self.path.name} has {self.width} ids, its tokenizer "
                f"{len(known)}"
            )
        for token_id, ours in enumerate(known):
            theirs = self.token_text(token_id)
            if ours is not None and ours != theirs:
                raise UserError(
                    f"model {self.name}: id {token_id} is {ours!r} in its tokenizer and {theirs!r} "
                    f"in {self.path.name}; name the base that the file was made from"
                )
        for text in PROBES:
            ours = list(tokenizer.encode(text, add_special_tokens=False))
            theirs = self.tokenize(text)
            if ours != theirs:
                raise UserError(
                    f"model {self.name}: its tokenizer encodes {text!r} as {ours}, llama.cpp with "
                    f"{self.path.name} as {theirs}; the file was made for another tokenizer"
                )


def quantize(source: str | Path, target: str | Path, file_type: str, name: str) -> None:
    """Write a GGUF file with its weights in another file type, by llama.cpp's own quantizer.

    What is quantized already is quantized again, so the result is never closer to the original
    weights than `source` was. Embedding and output may keep more bits, as llama.cpp decides.

    Args:
        file_type: such as "q8_0" or "q4_k_m".
        name: the model, for messages.

    Raises:
        UserError: llama.cpp cannot read the file or write this type.
    """
    from gguf import LlamaFileType

    llama = library()
    options = llama.llama_model_quantize_default_params()
    prefix = "ALL" if file_type == "f32" else "MOSTLY"
    options.ftype = int(LlamaFileType[f"{prefix}_{file_type.upper()}"])
    options.allow_requantize = True
    code = llama.llama_model_quantize(
        str(source).encode(), str(target).encode(), ctypes.byref(options)
    )
    if code:
        raise UserError(
            f"model {name}: llama.cpp cannot write {Path(source).name} as {file_type} (code {code})"
        )
