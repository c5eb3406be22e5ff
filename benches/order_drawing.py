"""The pictures of docs/order.md as SVG, for light and dark pages alike, from the figures that benches/order_pictures.py measures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

WIDTH = 820
LEFT, RIGHT, TOP, PLOT = 44, 8, 44, 230
CELL, LANE, GAP = 33, 38, 12
STYLE = """
  text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
  .title { font-size: 14px; font-weight: 600; }
  .faint { fill: #59636e; font-size: 12px; }
  .number { font-size: 11px; text-anchor: middle; }
  .rule { stroke: #d1d9e0; stroke-width: 1; }
  .curve { fill: none; stroke-linejoin: round; stroke-linecap: round; }
  .wide { stroke: #b6d4fb; stroke-width: 9; } .middle { stroke: #4493f8; stroke-width: 4.5; } .narrow { stroke: #1f2328; stroke-width: 1.3; }
  .dots { stroke: #d8a13a; stroke-width: 4.5; stroke-dasharray: 0 12; }
  .other { stroke: #d8a13a; stroke-width: 1.3; }
  .bar { stroke: #1f2328; stroke-width: 3; } .again { stroke: #8c959f; stroke-width: 3; stroke-dasharray: 3 3; }
  .kill { stroke: #cf222e; stroke-width: 2; } .killed { stroke: #cf222e; stroke-width: 1; stroke-dasharray: 2 4; }
  .step { fill: none; stroke: #1f2328; stroke-width: 2; } .rank { stroke: #59636e; stroke-width: 2; }
  .lane0 { fill: #0969da; } .lane1 { fill: #1a7f37; } .lane2 { fill: #d8a13a; } .lane3 { fill: #bf3989; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; } .faint { fill: #9198a1; } .rule { stroke: #3d444d; }
    .wide { stroke: #1f4a80; } .narrow, .bar, .step { stroke: #f0f6fc; } .rank { stroke: #9198a1; }
    .kill, .killed { stroke: #ff7b72; }
    .lane0 { fill: #4493f8; } .lane1 { fill: #3fb950; } .lane2 { fill: #d29922; } .lane3 { fill: #db61a2; }
  }
"""
Losses = Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Axes:
    """A plot of losses by step."""

    steps: int
    lowest: float
    highest: float

    def x(self, step: float) -> float:
        """From a step to the right."""
        return LEFT + step / max(self.steps - 1, 1) * (WIDTH - LEFT - RIGHT)

    def y(self, loss: float) -> float:
        """From a loss downwards."""
        return TOP + (self.highest - loss) / (self.highest - self.lowest) * PLOT

    def curve(self, losses: Losses, kind: str, first: int = 0) -> str:
        """A line through the losses of steps in a row."""
        points = " ".join(f"{self.x(first + place):.1f},{self.y(loss):.1f}" for place, loss in enumerate(losses))
        return f'<polyline points="{points}" class="curve {kind}"/>'

    def frame(self) -> Iterator[str]:
        """Rules, and what they mean."""
        for loss in range(int(self.lowest) + 1, int(self.highest) + 1):
            yield line(LEFT, self.y(loss), WIDTH - RIGHT, self.y(loss), "rule")
            yield text(LEFT - 8, self.y(loss) + 4, str(loss), "faint", "end")
        for step in range(0, self.steps, max(self.steps // 60 * 10, 5)):
            yield text(self.x(step), TOP + PLOT + 16, str(step), "faint", "middle")
        yield text(WIDTH - RIGHT, TOP + PLOT + 16, "step", "faint", "end")
        yield text(WIDTH - RIGHT, TOP - 6, "nats per byte", "faint", "end")


def line(x: float, y: float, to_x: float, to_y: float, kind: str) -> str:
    """A straight line."""
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" class="{kind}"/>'


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    """Words."""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def cross(x: float, y: float) -> str:
    """Where something was killed."""
    return line(x - 5, y - 5, x + 5, y + 5, "kill") + line(x - 5, y + 5, x + 5, y - 5, "kill")


def svg(height: float, parts: list[str]) -> str:
    """A whole picture."""
    size = f'width="{WIDTH}" height="{height:.0f}" viewBox="0 0 {WIDTH} {height:.0f}"'
    body = "\n".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n<style>{STYLE}</style>\n{body}\n</svg>\n'


def axes_of(curves: Sequence[Losses]) -> Axes:
    """Axes that hold all of them."""
    every = [loss for losses in curves for loss in losses]
    return Axes(steps=max(map(len, curves)), lowest=min(every) - 0.1, highest=max(every) + 0.1)


def legend(entries: Mapping[str, str], y: float, start: float = LEFT) -> Iterator[str]:
    """A stroke and words for each kind of curve, side by side."""
    x = start
    for kind, words in entries.items():
        yield f'<polyline points="{x},{y} {x + 28},{y}" class="curve {kind}"/>'
        yield text(x + 36, y + 4, words)
        x += 60 + 6.6 * len(words)


def draw_kills(found: Mapping[str, Any]) -> str:
    """Killed and resumed, over the uninterrupted run; below, which steps each start took."""
    axes = axes_of([found["uninterrupted"], found["without_loader_state"]])
    parts = [
        text(
            0,
            16,
            f"Loss of a training that is killed {found['kills']} times, drawn over that of the uninterrupted run",
            "title",
        ),
        *axes.frame(),
        axes.curve(found["uninterrupted"], "wide"),
        axes.curve(found["without_loader_state"], "other"),
        *(axes.curve(start["losses"], "narrow", start["first"]) for start in found["starts"]),
    ]
    top = TOP + PLOT + 40
    for number in range(len(found["starts"])):
        parts += _start(axes, found["starts"], number, top + 18 * number)
    top += 18 * len(found["starts"])
    entries = {
        "wide": "uninterrupted",
        "narrow": "killed and resumed",
        "other": "resumed without the loader's state",
        "again": "steps taken again",
    }
    parts += legend(entries, top + 8)
    apart, other = found["largest_difference"], found["largest_difference_without_loader_state"]
    words = (
        f"largest difference to the uninterrupted run: {_number(apart)}; without the loader's state: {_number(other)}"
    )
    parts.append(text(LEFT, top + 34, words, "faint"))
    return svg(top + 42, parts)


def _start(axes: Axes, starts: Sequence[Mapping[str, Any]], number: int, y: float) -> Iterator[str]:
    """A bar over the steps of one start: those taken again in another colour, a cross where it was killed."""
    start = starts[number]
    first, last = start["first"], start["first"] + len(start["losses"]) - 1
    again = min(max([first, *(one["last"] + 1 for one in starts[:number])]), last)
    yield text(LEFT - 8, y + 4, f"{number + 1}.", "faint", "end")
    yield line(axes.x(first), y, axes.x(again), y, "again")
    yield line(axes.x(again), y, axes.x(last), y, "bar")
    if start["killed"]:
        x = axes.x(last)
        yield line(x, TOP, x, y, "killed")
        yield cross(x, y)
        yield text(x + 10, y + 4, f"SIGKILL after step {last}", "faint")


def draw_ranks(found: Mapping[str, Any]) -> str:
    """Curves of several numbers of ranks, one over another."""
    curves, changing = found["losses"], found["changing"]
    axes = axes_of([*curves.values(), changing["losses"]])
    kinds = dict(zip(curves, ("wide", "middle", "narrow"), strict=True))
    parts = [text(0, 16, f"Loss of one training on {_listed(list(curves))} ranks", "title"), *axes.frame()]
    parts += [axes.curve(losses, kinds[ranks]) for ranks, losses in curves.items()]
    parts.append(axes.curve(changing["losses"], "dots"))
    for number, (start, ranks) in enumerate(zip(changing["starts"], changing["ranks"][1:], strict=False)):
        x, y = axes.x(start["last"]), axes.y(start["losses"][-1])
        parts += [cross(x, y), text(x, y - 40 - 16 * number, f"killed, resumed on {ranks}", "faint", "middle")]
    top = TOP + PLOT + 44
    entries = {kinds[ranks]: f"{ranks} rank{'s' * (ranks != '1')}" for ranks in curves}
    parts += legend(entries | {"dots": f"{', then '.join(map(str, changing['ranks']))}"}, top)
    apart = _number(found["largest_difference"])
    parts.append(text(LEFT, top + 26, f"largest difference between any two: {apart}", "faint"))
    return svg(top + 34, parts)


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _number(value: float) -> str:
    return f"{value:.2g}" if value else "0"


def draw_lanes(found: Mapping[str, Any]) -> str:
    """The data as blocks, the epoch as lanes, the steps across them, and which lanes each rank holds."""
    rows, size = found["rows"], found["block_rows"]
    shade = {block: (lane, place) for lane, blocks in enumerate(found["blocks"]) for place, block in enumerate(blocks)}
    parts = [
        text(
            0, 16, f"The data: {rows} rows in {rows // size} blocks, in the colour of the lane that gets them", "title"
        )
    ]
    width = WIDTH / (rows // size)
    for block, of in shade.items():
        parts.append(_cell(block * width + 1, 30, width - 2, 26, of, f"{block * size}–{block * size + size - 1}"))
    top = 122
    lanes, steps = len(found["blocks"]), len(found["steps"])
    parts.append(
        text(
            0,
            86,
            f"Epoch {found['epoch']}: dealt to {lanes} lanes, mixed inside each; a step takes {len(found['steps'][0][0])} rows of every lane",
            "title",
        )
    )
    left, column = 50, 2 * 30 + GAP
    for number, step in enumerate(found["steps"]):
        x = left + number * column
        parts.append(text(x + 30, top - 10, f"step {number}", "faint", "middle"))
        for lane, ids in enumerate(step):
            parts += [
                _cell(x + 30 * place, top + lane * LANE, 29, 29, shade[row // size], str(row))
                for place, row in enumerate(ids)
            ]
    parts += [text(0, top + lane * LANE + 19, f"lane {lane}", "faint") for lane in range(lanes)]
    chosen = found["shown_step"]
    box = f'x="{left + chosen * column - 5}" y="{top - 5}" width="{column - 3}" height="{lanes * LANE + 1}"'
    parts.append(f'<rect {box} rx="4" class="step"/>')
    parts.append(
        text(left + chosen * column + 30, top + lanes * LANE + 15, f"the global batch of step {chosen}", "", "middle")
    )
    for place, (ranks, held) in enumerate(found["held"].items()):
        parts += _ranks(left + steps * column + 6 + place * 78, top, ranks, held)
    return svg(top + lanes * LANE + 24, parts)


def _cell(x: float, y: float, width: float, height: float, of: tuple[int, int], words: str) -> str:
    """A row or a block, in its lane's colour; the lane's blocks differ in strength."""
    lane, place = of
    box = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="3" fill-opacity="{0.2 + 0.15 * place:.2f}"'
    return f'<rect {box} class="lane{lane}"/>' + text(x + width / 2, y + height / 2 + 4, words, "number", "middle")


def _ranks(x: float, top: float, ranks: str, held: Sequence[Sequence[int]]) -> Iterator[str]:
    """Brackets over the lanes that each of some ranks holds."""
    yield text(x, top - 10, f"on {ranks} ranks", "faint")
    for rank, lanes in enumerate(held):
        first, last = top + min(lanes) * LANE, top + max(lanes) * LANE + 29
        yield line(x, first, x, last, "rank")
        yield text(x + 8, (first + last) / 2 + 4, f"rank {rank}")
