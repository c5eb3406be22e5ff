"""The picture in docs/jpeg.md: python scripts/draw_jpeg_entry_points.py > docs/images/jpeg_entry_points.svg.

Which MCUs of a 480×400 photograph (4:2:0, so an MCU is 16×16 pixels) a random crop decodes, passes over and never touches. Nothing
is drawn by hand: the needed MCUs follow from the crop as in rust/src/jpeg/layout.rs, the ways to them as in rust/src/jpeg/scan.rs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

WIDTH, HEIGHT, MCU, EVERY = 480, 400, 16, 8
COLUMNS, ROWS = WIDTH // MCU, HEIGHT // MCU
CELL, GAP, TOP, LEFT, BETWEEN = 9, 1, 58, 2, 34
PANEL = COLUMNS * CELL
STYLE = """
  text { font: 12px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
  .title { font-size: 14px; font-weight: 600; }
  .faint { fill: #59636e; }
  .decoded { fill: #0969da; } .passed { fill: #d8a13a; } .untouched { fill: #e3e7ec; }
  .crop { fill: none; stroke: #cf222e; stroke-width: 2; }
  .entry { fill: #1f2328; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; } .faint { fill: #9198a1; }
    .decoded { fill: #4493f8; } .passed { fill: #bb8009; } .untouched { fill: #2a313a; }
    .crop { stroke: #ff7b72; } .entry { fill: #f0f6fc; }
  }
"""


@dataclass(frozen=True)
class Crop:
    """A crop in pixels."""

    x: int
    y: int
    width: int
    height: int


CROP = Crop(x=200, y=132, width=176, height=150)

#: What happens to the MCU at (column, row).
Fate = Callable[[int, int], str]


def needed(start: int, length: int, mcus: int) -> range:
    """MCUs that a stretch of pixels needs: chroma is half as large, and its triangle filter looks one sample further."""
    samples = MCU // 2
    first = max(start // 2 - 1, 0)
    last = min((start + length - 1) // 2 + 1, mcus * samples - 1)
    return range(first // samples, last // samples + 1)


COLUMNS_NEEDED = needed(CROP.x, CROP.width, COLUMNS)
ROWS_NEEDED = needed(CROP.y, CROP.height, ROWS)
LAST = ROWS_NEEDED[-1] * COLUMNS + COLUMNS_NEEDED[-1]


def is_needed(column: int, row: int) -> bool:
    """Whether the crop needs the MCU."""
    return column in COLUMNS_NEEDED and row in ROWS_NEEDED


def whole(_column: int, _row: int) -> str:
    """All of it, then cut."""
    return "decoded"


def region(column: int, row: int) -> str:
    """From the start of the file to the crop's last MCU; what lies before a needed MCU has to be passed over."""
    if is_needed(column, row):
        return "decoded"
    return "passed" if row * COLUMNS + column < LAST else "untouched"


def from_entry_points(column: int, row: int) -> str:
    """In every row of the crop, from the last entry point before it."""
    if is_needed(column, row):
        return "decoded"
    entry = COLUMNS_NEEDED[0] // EVERY * EVERY
    return "passed" if row in ROWS_NEEDED and entry <= column < COLUMNS_NEEDED[0] else "untouched"


def panel(left: int, title: str, note: str, fate: Fate, *, entries: bool) -> list[str]:
    """One panel: its title, the MCUs, the crop, how many of each kind."""
    lines = [
        f'<text x="{left}" y="18" class="title">{title}</text>',
        f'<text x="{left}" y="38" class="faint">{note}</text>',
    ]
    side = CELL - GAP
    for kind in ("decoded", "passed", "untouched"):
        cells = [(c, r) for r in range(ROWS) for c in range(COLUMNS) if fate(c, r) == kind]
        path = "".join(f"M{left + c * CELL} {TOP + r * CELL}h{side}v{side}h-{side}z" for c, r in cells)
        if path:
            lines.append(f'<path class="{kind}" d="{path}"/>')
    if entries:
        points = [(c, r) for r in range(ROWS) for c in range(0, COLUMNS, EVERY)]
        lines += [
            f'<circle class="entry" cx="{left + c * CELL + 1.5}" cy="{TOP + (r + 0.5) * CELL - 0.5}" r="2"/>'
            for c, r in points
        ]
    scale = CELL / MCU
    x, y = left + CROP.x * scale - 0.5, TOP + CROP.y * scale - 0.5
    lines.append(
        f'<rect class="crop" x="{x:g}" y="{y:g}" width="{CROP.width * scale:g}" height="{CROP.height * scale:g}"/>'
    )
    count = Counter(fate(c, r) for r in range(ROWS) for c in range(COLUMNS))
    words = {"decoded": "decoded", "passed": "passed over", "untouched": "untouched"}
    shown = ", ".join(f"{count[kind]} {word}" for kind, word in words.items() if count[kind])
    lines.append(f'<text x="{left}" y="{TOP + ROWS * CELL + 20}">{shown}</text>')
    return lines


def legend(y: int) -> list[str]:
    """What the colours mean."""
    entries = [
        ("decoded", "decoded: Huffman, inverse DCT, colour"),
        ("passed", "passed over: Huffman alone"),
        ("untouched", "never touched"),
    ]
    lines, x = [], LEFT
    for kind, words in entries:
        lines.append(f'<rect class="{kind}" x="{x}" y="{y - 11}" width="13" height="13" rx="2"/>')
        lines.append(f'<text x="{x + 20}" y="{y}">{words}</text>')
        x += 40 + round(6.4 * len(words))
    lines.append(
        f'<rect class="crop" x="{x}" y="{y - 10}" width="15" height="11"/><text x="{x + 22}" y="{y}">the crop</text>'
    )
    x += 92
    lines.append(
        f'<circle class="entry" cx="{x + 4}" cy="{y - 4}" r="2.5"/><text x="{x + 14}" y="{y}">entry point</text>'
    )
    return lines


def main() -> None:
    """Prints the picture."""
    panels = [
        ("Whole decode, then crop", "what most loaders do", whole, False),
        ("Region decode", "no inverse DCT outside the crop", region, False),
        ("Region decode with entry points", f"one every {EVERY} MCUs of each row", from_entry_points, True),
    ]
    lines: list[str] = []
    for number, (title, note, fate, entries) in enumerate(panels):
        lines += panel(LEFT + number * (PANEL + BETWEEN), title, note, fate, entries=entries)
    bottom = TOP + ROWS * CELL + 56
    lines += legend(bottom)
    width, height = LEFT * 2 + 3 * PANEL + 2 * BETWEEN, bottom + 14
    label = f"MCUs of a {WIDTH}×{HEIGHT} picture that a crop of {CROP.width}×{CROP.height} decodes, three ways"
    print(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">'
        f"\n<title>{label}</title>\n<style>{STYLE}</style>\n" + "\n".join(lines) + "\n</svg>"
    )


if __name__ == "__main__":
    main()
