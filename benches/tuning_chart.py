"""The tuner's decisions over time as SVG, one picture a pipeline: python benches/tuning_chart.py tuning.json docs/images."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from tuning_work import SLICE_S, TITLES

WIDTH, LEFT, RIGHT = 820, 150, 70
HEAD, RATE, KNOB = 52, 120, 34
#: Of a number that changed more often, only the last value is written.
_LABELLED = 6
STYLE = """
  text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
  .title { font-size: 14px; font-weight: 600; }
  .faint { fill: #59636e; font-size: 12px; }
  .rule { stroke: #d1d9e0; } .best { stroke: #8c959f; stroke-dasharray: 4 4; }
  .rate { fill: none; stroke: #0969da; stroke-width: 2; stroke-linejoin: round; }
  .knob { fill: none; stroke: #1a7f37; stroke-width: 2; } .change { fill: #1a7f37; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; } .faint { fill: #9198a1; } .rule { stroke: #3d444d; }
    .rate { stroke: #4493f8; } .knob { stroke: #3fb950; } .change { fill: #3fb950; }
  }
"""


def write(report: Mapping[str, Any], folder: Path) -> Iterator[Path]:
    """tuning_decode.svg and so on."""
    folder.mkdir(parents=True, exist_ok=True)
    for line in report["lines"]:
        if line["peer"] == "penstock":
            path = folder / f"tuning_{line['pipeline']}.svg"
            path.write_text(draw(line), encoding="utf-8")
            yield path


def draw(line: Mapping[str, Any]) -> str:
    """The rate of the run whose share is the middle one, the best setting's, and every number that was tuned."""
    runs = sorted(line["runs"], key=lambda one: one["samples_per_s"])
    run = runs[len(runs) // 2]
    seconds = len(run["slices"]) * SLICE_S
    knobs = run["tuning"]["values"]
    height = HEAD + RATE + 18 + KNOB * len(knobs) + 24
    setting = ", ".join(f"{name}={value}" for name, value in line["best"].items())
    parts = [
        f'<text x="0" y="16" class="title">{escape(TITLES[line["pipeline"]])}</text>',
        f'<text x="0" y="36" class="faint">Blue: samples a second. Dashed: {escape(setting)}, the best setting found by hand. Green: what the tuner chose.</text>',
        *_rate(run["slices"], line["best_samples_per_s"], seconds),
    ]
    for place, (name, value) in enumerate(knobs.items()):
        changes = [one for one in run["tuning"]["decisions"] if one["knob"] == name]
        parts += _knob(name, value, changes, HEAD + RATE + 18 + KNOB * place, seconds)
    parts += [
        f'<text x="{_x(second, seconds):.1f}" y="{height - 4}" class="faint" text-anchor="middle">{second} s</text>'
        for second in range(int(seconds) + 1)
    ]
    size = f'width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n<style>{STYLE}</style>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _x(second: float, seconds: float) -> float:
    return LEFT + second / seconds * (WIDTH - LEFT - RIGHT)


def _rate(slices: Sequence[int], best: float, seconds: float) -> list[str]:
    rates = [count / SLICE_S for count in slices]
    wide = [
        sum(rates[max(0, place - 1) : place + 2]) / len(rates[max(0, place - 1) : place + 2])
        for place in range(len(rates))
    ]
    most = 1.1 * max([*wide, best])
    bottom = HEAD + RATE

    def y(rate: float) -> float:
        return bottom - rate / most * RATE

    points = " ".join(f"{_x((place + 0.5) * SLICE_S, seconds):.1f},{y(rate):.1f}" for place, rate in enumerate(wide))
    return [
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}" class="rule"/>',
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(best):.1f}" y2="{y(best):.1f}" class="best"/>',
        f'<text x="{WIDTH - RIGHT + 8}" y="{y(best) + 4:.1f}" class="faint">{best:,.0f}</text>',
        f'<text x="{LEFT - 10}" y="{HEAD + RATE / 2:.0f}" text-anchor="end">samples/s</text>',
        f'<polyline points="{points}" class="rate"/>',
    ]


def _knob(
    name: str, value: Mapping[str, Any], changes: Sequence[Mapping[str, Any]], top: int, seconds: float
) -> list[str]:
    """A step line: each change, with the number that it chose."""
    first = changes[0]["from"] if changes else value["value"]
    most = max([first, value["value"], *(one["to"] for one in changes)])
    bottom, room = top + KNOB - 8, KNOB - 14

    def y(number: int) -> float:
        return bottom - number / most * room

    points, at, texts = [(LEFT, y(first))], first, [(LEFT, first)]
    for one in changes:
        x = _x(min(one["at_s"], seconds), seconds)
        points += [(x, y(at)), (x, y(one["to"]))]
        at = one["to"]
        texts.append((x, at))
    points.append((WIDTH - RIGHT, y(at)))
    line = " ".join(f"{x:.1f},{one:.1f}" for x, one in points)
    return [
        f'<text x="{LEFT - 10}" y="{bottom}" text-anchor="end">{escape(name)}</text>',
        f'<polyline points="{line}" class="knob"/>',
        *(f'<circle cx="{x:.1f}" cy="{y(number):.1f}" r="3" class="change"/>' for x, number in texts[1:]),
        *(
            f'<text x="{x - 4:.1f}" y="{y(number) + 4:.1f}" class="faint" text-anchor="end">{number}</text>'
            for (x, _), number in zip(texts[1:], [number for _, number in texts], strict=False)
            if len(texts) <= _LABELLED
        ),
        f'<text x="{WIDTH - RIGHT + 8}" y="{y(at) + 4:.1f}">{at}</text>',
    ]


if __name__ == "__main__":
    for written in write(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])):
        print(written)
