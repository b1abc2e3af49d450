"""Print every relation that was checked between the published numbers of each study."""

from __future__ import annotations

import argparse

from draftscope.errors import command


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", help="files of published cells")
    parser.add_argument("--failed", action="store_true", help="only what does not add up")
    arguments = parser.parse_args()

    from pathlib import Path

    from draftscope.exhibits import audit, published

    for path in map(Path, arguments.files):
        if path.stem == published.READINGS:
            continue
        findings = audit.run(published.load(path))
        held = sum(finding.holds for finding in findings)
        print(f"{path.stem}: {held} of {len(findings)} relations hold")
        for finding in findings:
            if not (finding.holds and arguments.failed):
                print(f"  {'holds' if finding.holds else 'FAILS'}  {finding.name}: "
                      f"{finding.detail}")  # fmt: skip


if __name__ == "__main__":
    command(main)
