"""The interface of lane stages: what gives more or fewer rows than it takes, by what the data says.

A filter on content, packing of sequences, a function that returns several rows, a bad sample that is left out: how many rows come out is not
known before. Such a stage works on one lane at a time, asked by demand, and its state is a small value of its own, so that a loader's
state says how far each lane's rows are used, on any number of ranks. No verb needs one yet: `lower` has no lane stages.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from penstock.core.spec import Columns, Ids

#: JSON-able, and small: no content of rows.
StateT = TypeVar("StateT")


class LaneStage(Protocol[StateT]):
    """A pure function of its state and rows; it keeps nothing itself, so that a lane can move to another rank."""

    def begin(self) -> StateT:
        """The state before a lane's first row."""

    def feed(self, state: StateT, columns: Columns, ids: Ids) -> tuple[Columns, Ids, StateT]:
        """The lane's next rows, in order: those that come out, with the ids of the rows that they came of, and the state after them."""
