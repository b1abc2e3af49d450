"""A model that llama.cpp runs, behind the `Decoder` interface.

llama.cpp keeps keys and values in cells that are dropped from the end as easily as they are
added, so stepping back is exact. What is not exact is the shape of a pass: some kernels add in
another order, or round activations otherwise, when they read several tokens at once. Which ones
do depends on the file type and the machine; `scripts/verify_latency.py` shows the time that goes
with it, the tests the size of it.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from draftscope.errors import UserError
from draftscope.models.llama_library import GgufModel, library

if TYPE_CHECKING:
    from draftscope.models import LoadedModel

_BATCH = 512  # most tokens of one pass
_PREFILL = 8  # more tokens than this before those that count are read in passes of their own
_SCORED = 32  # tokens of one pass of scoring: about what verification reads, see above
_ROOM = 2048  # tokens that a new cache holds
_SAME = 1e-3  # in standard deviations of the logits: passes of one shape are equal or nearly so


class LlamaDecoder:
    """One sequence in a llama.cpp context of its own; see `live.model.Decoder`.

    It computes in llama.cpp's own types: products with quantized weights round the activations to
    8 bits, keys and values are kept in float16. Logits are float32 and handed over on the device
    of the experiment.

    Raises:
        UserError: the model's memory cannot be cut at any token.
    """

    engine = "llama.cpp"

    def __init__(self, loaded: LoadedModel) -> None:
        self._model: GgufModel = loaded.model
        self.name, self.device = loaded.name, loaded.device
        self.width, self.max_positions = loaded.head_size, loaded.max_positions
        self.length = 0
        if self._model.cannot_step_back:
            raise _refusal(loaded.name, self._model.cannot_step_back)
        self._llama = library()
        self._open(min(_ROOM, self.max_positions or _ROOM))
        batch = self._batch = self._llama.llama_batch_init(_BATCH, 0, 1)
        weakref.finalize(self, self._llama.llama_batch_free, batch)
        # Views of llama.cpp's own arrays: filling them costs less than a loop over the tokens.
        self._tokens, self._positions, self._wanted, owners = (
            np.ctypeslib.as_array(column, shape=(_BATCH,))
            for column in (batch.token, batch.pos, batch.logits, batch.n_seq_id)
        )
        owners[:] = 1
        for place in range(_BATCH):
            batch.seq_id[place][0] = 0
        self._check_steps_back()

    @property
    def cache_lengths(self) -> set[int]:
        """The number of tokens that llama.cpp itself says it holds."""
        return {int(self._llama.llama_memory_seq_pos_max(self._memory, 0)) + 1}

    def reset(self) -> None:
        self.crop(0)

    def crop(self, length: int) -> None:
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot crop {self.length} tokens to {length}")
        if length == self.length:
            return
        if not self._llama.llama_memory_seq_rm(self._memory, 0, length, -1):
            raise _refusal(self.name, "its memory cannot be cut")
        self.length = length

    def extend(self, token_ids: Tensor, keep: int) -> Tensor:
        """Read token_ids [n]; logits [keep, V], float32, of the last `keep` positions (or none).

        A prompt is read in the same passes whatever is drafted after it: otherwise the number of
        drafts would decide how its keys and values are rounded.
        """
        ids = token_ids.cpu().numpy()
        if self.length + len(ids) > self._room:
            self._grow(self.length + len(ids))
        before = len(ids) - keep
        apart = before if before > _PREFILL else 0
        parts = []
        for start, stop in ((0, apart), (apart, len(ids))):
            for first in range(start, stop, _BATCH):
                part = ids[first : min(first + _BATCH, stop)]
                wanted = min(len(part), max(0, first + len(part) - before))
                parts.append(self._read(part, wanted))
        logits = parts[0] if len(parts) == 1 else torch.cat(parts)
        return logits.to(self.device)

    def _read(self, ids: np.ndarray, keep: int) -> Tensor:
        """One pass over at most `_BATCH` tokens."""
        count = len(ids)
        self._batch.n_tokens = count
        self._tokens[:count] = ids
        self._positions[:count] = np.arange(self.length, self.length + count)
        self._wanted[:count] = 0
        self._wanted[count - keep : count] = 1
        code = self._llama.llama_decode(self._context, self._batch)
        if code:
            raise RuntimeError(
                f"llama.cpp cannot read {count} tokens of {self.name} after {self.length} "
                f"(code {code})"
            )
        self.length += count
        if not keep:
            return torch.empty(0, self.width)
        rows = self._llama.llama_get_logits_ith(self._context, count - keep)
        # A copy: the buffer is written again by the next pass.
        return torch.from_numpy(np.ctypeslib.as_array(rows, shape=(keep, self.width)).copy())

    def _open(self, room: int) -> None:
        options = self._llama.llama_context_default_params()
        options.n_ctx = room
        options.n_batch = options.n_ubatch = _BATCH
        options.n_threads = options.n_threads_batch = torch.get_num_threads()
        context = self._llama.llama_init_from_model(self._model.pointer, options)
        if not context:
            raise UserError(
                f"model {self.name}: llama.cpp cannot make a cache of {room} tokens; is there "
                "memory for it?"
            )
        self._context, self._room = context, room
        self._memory = self._llama.llama_get_memory(context)
        self._close = weakref.finalize(self, _free, self._llama, context, self._model)

    def _grow(self, wanted: int) -> None:
        """A larger cache with the same content, byte for byte."""
        old, close = self._context, self._close
        size = int(self._llama.llama_state_seq_get_size(old, 0))
        state = (ctypes.c_uint8 * size)()
        copied = self._llama.llama_state_seq_get_data(old, state, size, 0)
        room = max(wanted, 2 * self._room)
        if self.max_positions is not None:
            room = max(wanted, min(room, self.max_positions))
        self._open(room)
        if self.length and not (
            copied and self._llama.llama_state_seq_set_data(self._context, state, copied, 0)
        ):
            raise RuntimeError(f"llama.cpp cannot move the cache of {self.name} to a larger one")
        close()

    def _check_steps_back(self) -> None:
        """Read on after a step back, and compare with a cache that never went further."""
        ids = torch.arange(20) * 7 % min(self.width, 1000)
        self.extend(ids[:9], 1)
        straight = self.extend(ids[9:13], 4)
        self.crop(9)
        self.extend(ids[:7], 7)
        self.crop(9)
        again = self.extend(ids[9:13], 4)
        error = float((again - straight).abs().max() / straight.std())
        if not error <= _SAME:
            raise _refusal(
                self.name, f"after a step back its logits are off by {error:.2g} deviations"
            )
        self.reset()


class Unread:
    """Positions of a text, [n], whose logits are made when they are asked for.

    llama.cpp hands out logits, not the states below its head. So that a matrix of [text,
    vocabulary] never exists, a slice stays unread until its `logits` are wanted; slices that
    follow one another cost one pass over the text.

    Args:
        token_ids: [tokens] of the whole text.
        places: the positions that this object stands for.
    """

    def __init__(
        self, decoder: LlamaDecoder, token_ids: Tensor, places: range | None = None
    ) -> None:
        if places is None:
            decoder.reset()
            places = range(len(token_ids))
        self.device = decoder.device
        self._decoder, self._ids, self._places = decoder, token_ids, places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, part: slice) -> Unread:
        return Unread(self._decoder, self._ids, self._places[part])

    def logits(self) -> Tensor:
        """Logits [n, V] of these positions, float32."""
        start, stop = self._places.start, self._places.stop
        decoder = self._decoder
        decoder.crop(min(decoder.length, start))
        if decoder.length < start:
            decoder.extend(self._ids[decoder.length : start], 0)
        parts = self._ids[start:stop].split(_SCORED)
        return torch.cat([decoder.extend(part, len(part)) for part in parts])


def _free(llama: Any, context: Any, _: GgufModel) -> None:
    """Free a context; the model is an argument so that it lives as long."""
    llama.llama_free(context)


def _refusal(name: str, reason: str) -> UserError:
    return UserError(
        f"model {name} cannot decode speculatively in llama.cpp: {reason}; use a model with full "
        "attention in every layer"
    )
