"""A GGUF file with its linear weights rounded to a few bits: the n-bit copy, for llama.cpp.

The counterpart of `round_to_nearest` where the model runs from its GGUF file. llama.cpp keeps the
rows of the query and key weights of the Llama family in another order than transformers does. That
needs no undoing: groups run along a row, so the order of the rows leaves the rounded values alone.
"""

from __future__ import annotations

import re
from pathlib import Path

import torch

from draftscope.errors import UserError
from draftscope.models.round_to_nearest import round_groups

# The linear layers inside a block; embedding and output head are kept, as in the other copy.
_LINEAR = re.compile(r"^blk\.\d+\.(attn_(q|k|v|qkv|output)|ffn_(gate|up|down))\.weight$")


def rounded_copy(
    source: str | Path,
    target: str | Path,
    bits: int,
    group_size: int,
    symmetric: bool,
    name: str = "model",
) -> int:
    """Write `target`: the file `source` with the values of its linear weights rounded.

    Rounded weights are stored in float32, which holds their values exactly; all else is copied.

    Returns:
        How many weights were rounded.

    Raises:
        UserError: nothing can be rounded, or the group size does not divide a width.
    """
    from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, LlamaFileType
    from gguf.quants import dequantize

    reader = GGUFReader(source)
    writer = GGUFWriter(target, reader.fields["general.architecture"].contents())
    _copy_fields(reader, writer)
    writer.add_file_type(LlamaFileType.ALL_F32)
    rounded = 0
    for tensor in reader.tensors:
        if not _LINEAR.match(tensor.name):
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
            continue
        weight = torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy())
        if weight.shape[-1] % group_size:
            raise UserError(
                f"model {name}: group_size {group_size} does not divide the width "
                f"{weight.shape[-1]} of {tensor.name}"
            )
        values = round_groups(weight, bits, group_size, symmetric).numpy()
        writer.add_tensor(tensor.name, values, raw_dtype=GGMLQuantizationType.F32)
        rounded += 1
    if not rounded:
        raise UserError(f"model {name}: {Path(source).name} has no linear layer to round")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return rounded


def _copy_fields(reader, writer) -> None:
    """Every key of the file except those that the writer writes itself."""
    from gguf import GGUFValueType

    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in (
            "general.architecture",
            "general.file_type",
        ):
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub_type=inner)
