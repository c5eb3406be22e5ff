"""The demo's live display: the training's progress, and whether the model waits for data."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table

_BARS = "▁▂▃▄▅▆▇█"
_POINTS = 32


@dataclass
class Figures:
    """What the screen shows; the demo writes it."""

    epochs: int
    steps: int
    epoch: int = 0
    step: int = 0
    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    held_out: list[float] = field(default_factory=list)
    samples: int = 0
    busy_s: float = 0.0
    waited_s: float = 0.0

    @property
    def samples_per_s(self) -> float:
        """Samples trained on, per second of training."""
        return self.samples / max(self.busy_s, 1e-9)

    @property
    def waited(self) -> float:
        """Share of the training time that the model waits for data."""
        return self.waited_s / max(self.busy_s, 1e-9)


class Screen:
    """Draws the figures eight times a second on a terminal; elsewhere prints a line after each epoch."""

    def __init__(self, console: Console, figures: Figures) -> None:
        self._console, self._figures = console, figures
        self._live = Live(console=console, get_renderable=self._draw, refresh_per_second=8, transient=True)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def epoch_done(self) -> None:
        """Print a line that stays on the screen."""
        shown = self._figures
        self._console.print(
            f"epoch {shown.epoch + 1:>2}/{shown.epochs}   loss {mean(shown.losses):.3f}   accuracy "
            f"{mean(shown.accuracies):6.1%}   held out {shown.held_out[-1]:6.1%}   {shown.samples_per_s:6,.0f} samples/s   "
            f"waited for data {shown.waited:.1%}",
            soft_wrap=True,
        )

    def _draw(self) -> RenderableType:
        shown = self._figures
        grid = Table.grid(padding=(0, 2))
        bar = ProgressBar(
            total=shown.epochs * shown.steps, completed=shown.epoch * shown.steps + shown.step, width=_POINTS
        )
        grid.add_row("epoch", f"{shown.epoch + 1} of {shown.epochs}, step {shown.step} of {shown.steps}", bar)
        grid.add_row("loss", f"{mean(shown.losses):.3f}", sparkline(shown.losses))
        grid.add_row("accuracy", f"{mean(shown.accuracies):.1%}", sparkline(shown.accuracies))
        held_out = f"{shown.held_out[-1]:.1%}" if shown.held_out else "…"
        grid.add_row("accuracy, held out", held_out, sparkline(shown.held_out))
        grid.add_row("samples/s", f"{shown.samples_per_s:,.0f}", "")
        grid.add_row("waited for data", f"{shown.waited:.1%}", "of the time")
        return Panel(grid, title="penstock demo", title_align="left", expand=False)


def mean(values: list[float], last: int = 20) -> float:
    """The mean of the last few values; 0 if there are none."""
    recent = values[-last:]
    return sum(recent) / len(recent) if recent else 0.0


def sparkline(values: list[float], points: int = _POINTS) -> str:
    """A chart of the values in one line: sparkline([0.0, 0.5, 1.0]) == "▁▄█"."""
    if not values:
        return ""
    group = -(-len(values) // points)
    means = [mean(values[start : start + group], group) for start in range(0, len(values), group)]
    low, high = min(means), max(means)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BARS[int((value - low) * scale)] for value in means)


class Stopwatch:
    """Splits training time into waiting for data and the model's own work."""

    def __init__(self, figures: Figures) -> None:
        self._figures, self._at = figures, time.perf_counter()

    def received(self) -> None:
        """Call when a batch arrives."""
        now = time.perf_counter()
        self._figures.waited_s += now - self._at
        self._figures.busy_s += now - self._at
        self._at = now

    def trained(self, samples: int) -> None:
        """Call when the model has used it."""
        now = time.perf_counter()
        self._figures.samples += samples
        self._figures.busy_s += now - self._at
        self._at = now
