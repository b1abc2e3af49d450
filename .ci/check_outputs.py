"""Look at what a finished laptop run made: complete, computed, and free of empty numbers."""

import csv
import re
import sys
from pathlib import Path

VERDICTS = {
    "agrees",
    "differs",
    "same direction",
    "opposite direction",
    "unresolved",
    "not measured",
}


def main(folder: Path) -> list[str]:
    problems = []
    for stem in ("table1", "table2", "table_types", "table_trend"):
        for kind in ("csv", "md", "tex"):
            path = folder / f"exhibits/position/{stem}.{kind}"
            problems += [] if path.is_file() else [f"{path} is missing"]
    for number in (1, 2, 3, 4, 5, 7):
        for kind, start in (("svg", b"<?xml"), ("pdf", b"%PDF")):
            path = folder / f"exhibits/position/figure{number}.{kind}"
            if not path.is_file() or not path.read_bytes().startswith(start):
                problems.append(f"{path} is missing or not {kind}")
    if problems:
        return problems
    rows = table(folder / "exhibits/position/table1.csv")
    measured = [row for row in rows if re.fullmatch(r"[-+]?\d.*", row["difference"])]
    if len(measured) < 4:
        problems.append(f"Table 1 holds {len(measured)} measured differences, expected 4 or more")
    for name in ("exhibits/position/table1.csv", "exhibits/position/table2.csv", "scorecard.csv"):
        if re.search(r"\b(nan|NaN|inf)\b", (folder / name).read_text(encoding="utf-8")):
            problems.append(f"{name} holds a number that is none")
    card = table(folder / "scorecard.csv")
    foreign = {row["verdict"] for row in card} - VERDICTS
    if foreign:
        problems.append(f"the scorecard holds the verdicts {sorted(foreign)}")
    posing = [row for row in card if row["verdict"] in ("agrees", "differs")]
    if posing:
        problems.append("a laptop run says that it agrees or differs with the published study")
    page = (folder / "report.html").read_text(encoding="utf-8")
    for wanted in ("Table 1", "Table 2", "Figure 1", "Figure 2", "Figure 5", "smollm2-135m"):
        if wanted not in page:
            problems.append(f"the report does not hold {wanted!r}")
    if re.search(r"""(?:src|href)=["']https?:""", page):
        problems.append("the report refers to the network")
    print(f"{len(measured)} differences in Table 1, {len(card)} published cells, "
          f"report of {len(page) // 1024} KiB")  # fmt: skip
    return problems


def table(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    found = main(Path(sys.argv[1]))
    for problem in found:
        print(f"problem: {problem}")
    sys.exit(bool(found))
