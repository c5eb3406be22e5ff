"""Penstock: mix of token files; batch_bucketed and batch_tokens of lists in memory."""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa
from common import CPUS, Feed, endless
from mixing_common import Task, main

import penstock as ps
from mixing_rows import BATCH, BOUNDARIES, LENGTH, MAX_TOKENS, WEIGHTS, lists, token_files


def mixed(task: Task, *, mode: Any) -> Feed:
    """Every source's rows in an order of its own."""
    sources = [ps.read(path, format="tokens", dtype="uint16", window=LENGTH) for path in token_files(task.data)]
    mix = ps.mix(sources, weights=WEIGHTS).shuffle(seed=0, mode=mode)
    return feed(mix.batch(BATCH, drop_last=True), format="token files", shuffle=mode)


def documents(task: Task) -> ps.Dataset:
    """The lists, shuffled."""
    values, edges = lists(task.rows)
    column = pa.LargeListArray.from_arrays(pa.array(edges), pa.array(values))
    return ps.from_arrays({"tokens": column}).shuffle(seed=0)


def bucketed(task: Task) -> Feed:
    """Equally many rows."""
    rows = documents(task).batch_bucketed(BATCH, by="tokens", boundaries=BOUNDARIES, drop_last=True)
    return feed(rows, boundaries=BOUNDARIES)


def by_tokens(task: Task) -> Feed:
    """Equally many tokens."""
    return feed(documents(task).batch_tokens(MAX_TOKENS, by="tokens", drop_last=True), max_tokens=MAX_TOKENS)


def feed(train: ps.Dataset, **settings: object) -> Feed:
    """Epoch after epoch of one loader."""
    loader = ps.Loader(train, to="numpy", cpus=CPUS)
    return Feed(batches=endless(lambda: loader), column=lambda batch: batch["tokens"], settings=settings)


if __name__ == "__main__":
    mixes = {"global": partial(mixed, mode="global"), "block": partial(mixed, mode="block")}
    main("Penstock", ps.__version__, {"mix": mixes, "lengths": {"rows": bucketed, "tokens": by_tokens}})
