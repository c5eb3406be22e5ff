"""A bench's JSON as the README's Markdown: python benches/table.py benches/results.json."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import cluster
from work import TITLES, UNITS

Row = Mapping[str, Any]


def markdown(report: Mapping[str, Any]) -> str:
    """One table a workload, best first, then where and how it was measured."""
    parts = [f"**{TITLES[name]}** ({UNITS[name]})\n\n{_table(rows)}" for name, rows in by_workload(report).items()]
    parts += cluster.lines(report)
    return "\n\n".join([*parts, _footing(report)]) + "\n"


def by_workload(report: Mapping[str, Any]) -> dict[str, list[Row]]:
    """The report's rows by workload, fastest first."""
    rows = sorted(report["rows"], key=lambda row: -row["median"])
    return {
        name: [row for row in rows if row["workload"] == name]
        for name in TITLES
        if any(row["workload"] == name for row in rows)
    }


def our_variants(rows: Iterable[Row]) -> list[str]:
    """Our own variants that the peers are compared with, in the order in which they are listed."""
    return list(dict.fromkeys(variant for row in rows for variant in row["ratios"]))


def ratio(row: Row, name: str) -> str:
    """How many times as fast one of ours is: the median of all pairs of runs and, of several, the least and the most."""
    if name not in row["ratios"]:
        return ""
    pairs = [run["ratios"][name] for run in row["runs"] if name in run["ratios"]]
    spread = f" ({min(pairs):.2f} to {max(pairs):.2f})" if len(pairs) > 1 else ""
    return f"{row['ratios'][name]:.2f}{spread}"


def _table(rows: list[Row]) -> str:
    mine = our_variants(rows)
    heads = [f"penstock {name} / this" if len(mine) > 1 else "penstock / this" for name in mine]
    lines = [
        f"| | median | best | CPU s per 1,000 | {' | '.join(heads)} | |",
        f"| --- | ---: | ---: | ---: | {' | '.join('---:' for _ in mine)} | --- |",
    ]
    for row in rows:
        name = f"{row['peer']} {row['version'].partition('+')[0]}, {row['variant']}"
        name = f"**{row['peer']}, {row['variant']}**" if row["ours"] else name
        rates = f"{row['median']:,.0f} | {row['best']:,.0f} | {row['cpu_s_per_1000']:.3g}"
        ratios = " | ".join(ratio(row, one) for one in mine)
        lines.append(f"| {name} | {rates} | {ratios} | {row['note']} |")
    return "\n".join(lines)


def _footing(report: Mapping[str, Any]) -> str:
    machine = report["machine"]
    skipped = "".join(f" {skip['peer']} is missing: it {skip['reason']}." for skip in report["skipped"])
    cores = "1 core" if machine["cpus"] == 1 else f"{machine['cpus']} cores"
    return (
        f"{machine['cpu']}, {cores}; {report['rounds']} rounds of {report['seconds']:g} s a side, in turn; "
        f"commit {report['commit']}; `{report['command']}`.{skipped}"
    )


if __name__ == "__main__":
    print(markdown(json.loads(Path(sys.argv[1]).read_text())), end="")
