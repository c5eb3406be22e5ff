"""The plan as data: described, digested, joined."""

from __future__ import annotations

import functools

import numpy as np

import penstock as ps
from penstock.plan.nodes import Batch, Map, Shuffle, Transform, describe, digest
from penstock.plan.rules import optimize
from penstock.plan.tree import flow

DATA = ps.from_arrays({"image": np.zeros((4, 4, 4, 3), dtype=np.uint8)}).root


def test_described_for_people() -> None:
    assert describe(Batch(input=DATA, size=8, drop_last=True)) == "batch size=8 drop_last=True"
    assert describe(Shuffle(input=DATA)) == "shuffle"
    crop = ps.image.CenterCrop(2)
    assert describe(Transform(input=DATA, ops=(("image", (crop,)),))) == f"transform image=[{crop!r}]"


def one(_: dict) -> dict:
    return {}


def two(_: dict) -> dict:
    return {}


def test_digests_tell_plans_apart() -> None:
    nodes = [
        Batch(input=DATA, size=8), Batch(input=DATA, size=9), Batch(input=DATA, size=8, pad=True), Shuffle(input=DATA, seed=8), Map(input=DATA, function=one), Map(input=DATA, function=two),
        Transform(input=DATA, ops=(("a", (ps.image.CenterCrop(2),)),)), Transform(input=DATA, ops=(("a", (ps.image.CenterCrop(3),)),)),
    ]  # fmt: skip
    assert len({digest(node) for node in nodes}) == len(nodes)
    assert digest(Map(input=DATA, function=one)) == digest(Map(input=DATA, function=one))
    assert digest(Map(input=DATA, function=functools.partial(one))) == digest(
        Map(input=DATA, function=functools.partial(one))
    )


def test_neighbouring_transforms_become_one() -> None:
    crop, flip = ps.image.CenterCrop(2), ps.image.RandomHorizontalFlip()
    base = ps.from_arrays({"image": np.zeros((4, 4, 4, 3), dtype=np.uint8)})
    joined = flow(optimize(base.transform(image=crop).batch(2).transform(image=flip).root))
    assert [node.verb for node in joined] == ["read", "transform", "batch"]
    assert joined[1].ops == (("image", (crop, flip)),)
    apart = flow(optimize(base.transform(image=crop).map(one).transform(image=flip).root))
    assert [node.verb for node in apart] == ["read", "transform", "map", "transform"]


def test_datasets_do_not_change() -> None:
    base = ps.from_arrays({"x": np.arange(10)})
    base.shuffle().batch(2)
    assert [node.verb for node in base.nodes] == ["read"]
    assert repr(base.batch(2)) == "Dataset(10 samples: read -> batch)"


def test_explained() -> None:
    text = ps.from_arrays({"x": np.arange(1000)}).shuffle(seed=1).map(one).batch(64).explain()
    for part in (
        "1,000 samples",
        "1. read",
        "2. shuffle seed=1",
        "16 steps an epoch, 64 rows each, from 64 lanes",
        "gather (cpu",
        "map one (python",
    ):
        assert part in text
