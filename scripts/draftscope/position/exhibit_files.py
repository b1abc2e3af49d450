"""What a script of exhibits of the position study is given: statistics files and a folder."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import DataFrame


def read(
    description: str, names: Sequence[str]
) -> tuple[dict[str, DataFrame], dict[str, Any], Path]:
    """Parse the command line and read the files of schemas position_NAME that it names.

    Args:
        description: of the script, as --help shows it.
        names: an option --NAME each.

    Returns:
        Their tables by name, the settings that the first one was made with, and the folder that
        the exhibits go into.

    Raises:
        UserError: a file that is missing, damaged or of another schema.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in names:
        parser.add_argument(f"--{name}", required=True, help=f"Parquet, schema position_{name}")
    parser.add_argument("--folder", required=True, help="folder to write the exhibits into")
    arguments = parser.parse_args()

    import draftscope.position.schemas
    import draftscope.position.token_schemas  # noqa: F401  (both register the files' schemas)
    from draftscope import records

    tables = {name: records.read(getattr(arguments, name), f"position_{name}") for name in names}
    settings = records.condition(tables[names[0]])["statistics"]
    frames = {name: table.to_pandas() for name, table in tables.items()}
    return frames, settings, Path(arguments.folder)
