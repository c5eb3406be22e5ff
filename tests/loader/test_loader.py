"""Loaders that come and go, and what makes their items."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np

import penstock as ps
from penstock.loader.here import Here
from penstock.loader.in_child import InChild
from support.seams import runs_of
from support.shared import new_threads


def numbers(rows: int = 400) -> ps.Dataset:
    return ps.from_arrays({"x": np.arange(rows)}).shuffle(seed=0).batch(10)


def source_of(loader: ps.Loader[Any]) -> Any:
    return loader._rank.items


def test_isolation_says_what_makes_the_items() -> None:
    """The loader itself is the same; it starts nothing until the first batch is taken."""
    here, in_child = ps.Loader(numbers()), ps.Loader(numbers(), isolation="process")
    assert (type(here), type(source_of(here))) == (ps.Loader, Here)
    assert (type(in_child), type(source_of(in_child))) == (ps.Loader, InChild)
    assert here.state_dict() == in_child.state_dict()
    assert runs_of(here) == []


def test_a_loader_that_nobody_holds_ends_its_threads_at_once() -> None:
    """Nothing that runs, and nothing that makes items, holds the loader, so it needs no garbage collector."""
    gc.collect()  # else threads that end earlier tests' loaders may begin meanwhile
    before = {*threading.enumerate()}
    loader = ps.Loader(numbers())
    assert len([*loader]) == 40
    assert new_threads(before)  # the next epoch's first batches are made
    gc.disable()
    try:
        del loader
        assert not new_threads(before)
    finally:
        gc.enable()
