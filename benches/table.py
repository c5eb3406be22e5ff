"""A bench's JSON as the README's Markdown: python benches/table.py benches/results.json."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from work import TITLES, UNITS

Row = Mapping[str, Any]


def markdown(report: Mapping[str, Any]) -> str:
    """One table a workload, best first, then where and how it was measured."""
    parts = [f"**{TITLES[name]}** ({UNITS[name]})\n\n{_table(rows)}" for name, rows in by_workload(report).items()]
    return "\n\n".join([*parts, _footing(report)]) + "\n"


def by_workload(report: Mapping[str, Any]) -> dict[str, list[Row]]:
    """The report's rows by workload, fastest first."""
    rows = sorted(report["rows"], key=lambda row: -row["median"])
    return {
        name: [row for row in rows if row["workload"] == name]
        for name in TITLES
        if any(row["workload"] == name for row in rows)
    }


def _table(rows: Iterable[Row]) -> str:
    lines = [
        "| | median | best | CPU s per 1,000 | penstock is … times as fast | |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for row in rows:
        name = (
            f"**{row['peer']}**"
            if row["ours"]
            else f"{row['peer']} {row['version'].partition('+')[0]}, {row['variant']}"
        )
        ratio = "" if row["ours"] or row["ratio"] is None else f"{row['ratio']:.2f}"
        lines.append(
            f"| {name} | {row['median']:,.0f} | {row['best']:,.0f} | {row['cpu_s_per_1000']:.3g} | {ratio} | {row['note']} |"
        )
    return "\n".join(lines)


def _footing(report: Mapping[str, Any]) -> str:
    machine = report["machine"]
    skipped = "".join(f" {skip['peer']} is missing: it {skip['reason']}." for skip in report["skipped"])
    return (
        f"{machine['cpu']}, {machine['cpus']} cores; {report['rounds']} rounds of {report['seconds']:g} s a side, in turn; "
        f"commit {report['commit']}; `{report['command']}`.{skipped}"
    )


if __name__ == "__main__":
    print(markdown(json.loads(Path(sys.argv[1]).read_text())), end="")
