"""Bad samples that a loader tolerates: counts them, takes note of them in a quarantine file, and says when there are too many."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any, Literal, TypeAlias

import numpy as np

from penstock.core.arguments import is_one_of
from penstock.core.errors import DataError, PlanError
from penstock.core.messages import quoted
from penstock.core.warnings import warn
from penstock.observe.figure_groups import ErrorFigures
from penstock.observe.quarantine import BadSample, Quarantine

OnError: TypeAlias = Literal["raise", "substitute", "skip"]

ON_ERROR = ("raise", "substitute", "skip")
_DONE = {"substitute": "another row takes its place", "skip": "it is left out"}

#: A rate counts once so many rows were read, or ten times as many as one bad one may come among.
_FEWEST_ROWS, _FEWEST_BAD = 1000, 10


class BadSamples:
    """What is known of the bad samples of one loader.

    on_error: what is done about them. max_errors: how many different ones there may be, or as a float, which part of the rows that were read.
    """

    def __init__(self, on_error: OnError, max_errors: float, quarantine: Quarantine | None) -> None:
        _check(on_error, max_errors, quarantine)
        self.on_error, self._quarantine = on_error, quarantine
        self._most: Any = max_errors
        self._known: set[tuple[str, int]] = set()
        self._sources: Counter[str] = Counter()
        self._met = self._rows = 0
        self._unsaid: BadSample | None = None
        self._lock = threading.Lock()

    @property
    def substitutes(self) -> bool:
        """Whether other rows take the places of bad ones."""
        return self.on_error == "substitute"

    def count(self, rows: int) -> None:
        """So many more rows were read."""
        with self._lock:
            self._rows += rows

    def note(self, sample: BadSample, error: DataError, rank: int) -> None:
        """Takes note of a bad sample; DataError if it is one too many."""
        with self._lock:
            is_new = sample.key not in self._known
            self._check_ceiling(sample, error, is_new=is_new)
            self._met += 1
            if not is_new:
                return
            if not self._known:
                self._unsaid = sample
            self._known.add(sample.key)
            self._sources[sample.source] += 1
        if self._quarantine is not None:
            self._quarantine.add(sample, rank)

    def _check_ceiling(self, sample: BadSample, error: DataError, *, is_new: bool) -> None:
        most, met = self._most, self._met + 1
        if isinstance(most, float):
            is_known = self._rows >= max(_FEWEST_ROWS, _FEWEST_BAD / most)
            too_many = f"{met:,} of {self._rows:,} rows so far" if is_known and met > most * self._rows else ""
        else:
            too_many = f"{len(self._known) + 1:,} bad samples" if is_new and len(self._known) >= most else ""
        if too_many:
            raise DataError(
                f"{sample.where}: {sample.found}; that makes {too_many}, more than max_errors={most} allows; look at the data, or allow more"
            ) from error

    def warn(self) -> None:
        """Warns, once, of the first bad sample."""
        with self._lock:
            first, self._unsaid = self._unsaid, None
        if first is not None:
            warn(
                f'penstock: {first.where}: {first.found}; {_DONE[self.on_error]}. More bad samples are counted in stats()["errors"]'
                + ("" if self._quarantine else "; Loader(quarantine=…) writes a list of them")
            )

    @property
    def has_news(self) -> bool:
        """Whether there is something to warn of."""
        return self._unsaid is not None

    def figures(self) -> ErrorFigures:
        """Different bad samples, how often any was met, and how many different ones of each source."""
        with self._lock:
            return ErrorFigures(samples=len(self._known), met=self._met, sources=dict(self._sources))

    def close(self) -> None:
        """Closes the quarantine file."""
        if self._quarantine is not None:
            self._quarantine.close()


def _check(on_error: Any, max_errors: Any, quarantine: Quarantine | None) -> None:
    if not is_one_of(on_error, ON_ERROR):
        raise PlanError(f"on_error={quoted(on_error)}; choose 'raise', 'substitute' or 'skip'")
    if quarantine is not None and on_error == "raise":
        raise PlanError(
            "quarantine: the first bad sample is an error; choose on_error='substitute' or 'skip' to go on and list them"
        )
    is_count = isinstance(max_errors, (int, np.integer)) and max_errors is not True and max_errors >= 0
    if not is_count and not (isinstance(max_errors, float) and 0 < max_errors < 1):
        raise PlanError(
            f"max_errors={quoted(max_errors)}; give how many different bad samples there may be, as a whole number, or which part of the rows, between 0.0 and 1.0"
        )
