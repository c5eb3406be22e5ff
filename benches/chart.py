"""A bench's JSON as a bar chart in SVG, for light and dark pages alike: python benches/chart.py benches/results.json docs/images/bench.svg."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from table import Row, by_workload
from work import TITLES, UNITS

WIDTH = 820
NAMES = 270
BARS = WIDTH - NAMES - 150
ROW = 24
HEAD = 46
STYLE = """
  text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
  .title { font-size: 14px; font-weight: 600; }
  .faint { fill: #59636e; }
  .ours { fill: #0969da; }
  .peer { fill: #c3cad2; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; } .faint { fill: #9198a1; } .ours { fill: #4493f8; } .peer { fill: #4b535d; }
  }
"""


def draw(report: Mapping[str, Any]) -> str:
    """One group of bars a workload; all our variants, of each peer its fastest."""
    parts: list[str] = []
    top = 0
    for workload, rows in by_workload(report).items():
        shown = fastest(rows)
        parts.append(_group(workload, shown, top))
        top += HEAD + ROW * len(shown) + 14
    where = f"{report['machine']['cpu']}, {report['machine']['cpus']} cores; median of {report['rounds']} round(s)"
    parts.append(f'<text x="0" y="{top + 14}" class="faint">{escape(where)}</text>')
    size = f'width="{WIDTH}" height="{top + 24}" viewBox="0 0 {WIDTH} {top + 24}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n<style>{STYLE}</style>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def fastest(rows: list[Row]) -> list[Row]:
    """All of ours, and of each peer its fastest row; rows come fastest first."""
    kept: dict[str, Row] = {}
    for row in rows:
        kept.setdefault(label(row) if row["ours"] else row["peer"], row)
    return list(kept.values())


def label(row: Row) -> str:
    """A side's name: "penstock, exact"."""
    return f"{row['peer']}, {row['variant']}"


def _group(workload: str, rows: list[Row], top: int) -> str:
    most = rows[0]["median"]
    lines = [
        f'<text x="0" y="{top + 20}" class="title">{escape(TITLES[workload])}</text>',
        f'<text x="{WIDTH}" y="{top + 20}" class="faint" text-anchor="end">{UNITS[workload]}, longer is faster</text>',
    ]
    for place, row in enumerate(rows):
        lines += _bar(row, top + HEAD + ROW * place, BARS * row["median"] / most)
    return "\n".join(lines)


def _bar(row: Row, y: int, length: float) -> list[str]:
    kind, weight = ("ours", ' class="title"') if row["ours"] else ("peer", "")
    times = next(iter(row["ratios"].values()), None)
    words = "" if times is None else f"({_times(times)}× slower)" if times >= 1 else f"({_times(1 / times)}× faster)"
    ratio = f' <tspan class="faint">{words}</tspan>' if words else ""
    return [
        f'<text x="{NAMES - 10}" y="{y + 2}" text-anchor="end"{weight}>{escape(label(row))}</text>',
        f'<rect x="{NAMES}" y="{y - 11}" width="{max(length, 1.5):.1f}" height="17" rx="3" class="{kind}"/>',
        f'<text x="{NAMES + max(length, 1.5) + 8:.1f}" y="{y + 2}">{row["median"]:,.0f}{ratio}</text>',
    ]


def _times(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio < 10 else f"{ratio:,.0f}"


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(draw(json.loads(Path(sys.argv[1]).read_text())))
