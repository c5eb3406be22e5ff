"""What is drawn over which picture follows from a plan's ops, and ends where a transform moves pictures without it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.core.columns.overlay import Overlay
from penstock.plan.overlays import overlay_of, overlays_of, said_of

I = ps.image  # noqa: E741  # as users write it
MASK = {"mask": Overlay(kind="mask", of="image")}


@dataclass(frozen=True)
class BoxesAlong:
    of: str
    format: str = "XYXY"
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class OtherFormat:
    format: str


@dataclass(frozen=True)
class MaskAlong:
    of: str
    mode: str = "P"


@dataclass(frozen=True)
class PointsAlong:
    of: str


def data(overlays: dict[str, Overlay] | None = None) -> Any:
    """Pixels whose source says what lies over them."""
    found = ps.from_arrays({"image": np.zeros((4, 40, 40, 3), np.uint8), "mask": np.zeros((4, 40, 40, 1), np.uint8)})
    if overlays is not None:
        vars(found.source)["overlays"] = overlays
    return found


def files() -> Any:
    return ps.from_dataset([{"image": b"", "mask": b""}] * 4)


def test_ops_that_go_along_say_what_they_are() -> None:
    assert overlay_of([BoxesAlong("a", "XYWH", ("b",))]) == Overlay(kind="boxes", of="a", format="XYWH", labels=("b",))
    assert overlay_of([BoxesAlong("a"), OtherFormat("CXCYWH"), object()]) == Overlay(
        kind="boxes", of="a", format="CXCYWH"
    )
    assert overlay_of([MaskAlong("a")]) == Overlay(kind="mask", of="a")
    assert overlay_of([PointsAlong("a")]) == Overlay(kind="points", of="a")
    assert [overlay_of(ops) for ops in ([], [I.Decode()], [object()])] == [None] * 3


def test_indices_beside_a_picture_are_its_mask() -> None:
    chains = {"mask": [I.Decode(mode="P")], "image": [I.Decode()]}
    assert said_of(chains) == MASK
    assert said_of(chains, apart=True) == {}
    assert said_of({"mask": chains["mask"]}) == {}
    plan = files().transform(
        image=[I.Decode(), I.RandomCrop(8)], mask=[I.Decode(mode="P"), I.RandomCrop(8)], draws="together"
    )
    assert overlays_of(plan.root) == overlays_of(plan.shuffle(seed=0).batch(2).root) == MASK


def test_a_transform_that_moves_the_picture_alone_takes_it_away() -> None:
    plan = files().transform(
        image=[I.Decode(), I.Resize((8, 8))], mask=[I.Decode(mode="P"), I.Resize((8, 8), "nearest")]
    )
    assert overlays_of(plan.transform(image=I.Normalize(I.IMAGENET)).root) == MASK
    assert overlays_of(plan.transform(image=I.CenterCrop(4)).root) == {}
    assert overlays_of(plan.transform(mask=I.CenterCrop(4)).root) == {}


def test_a_source_says_what_its_columns_are() -> None:
    assert overlays_of(data().root) == {}
    assert overlays_of(data(MASK).shuffle(seed=0).root) == MASK


@pytest.mark.parametrize("agree", [True, False])
def test_sources_that_become_one_must_agree(agree: bool) -> None:
    second = data(dict(MASK)) if agree else data()
    assert overlays_of(ps.concat([data(MASK), second]).root) == (MASK if agree else {})


def test_zipped_sources_say_each_for_itself() -> None:
    other = ps.from_arrays({"x": np.arange(4)})
    assert overlays_of(ps.zip([other, data(MASK)]).root) == MASK
