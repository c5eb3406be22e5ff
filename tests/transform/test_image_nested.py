"""Ops around ops: each draws by its path, chances are what they say, and columns that draw together do the same or are refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.core.columns.spec import Field
from penstock.core.errors import PlanError
from penstock.transform import image as I  # noqa: N812
from penstock.transform.family import path_number
from penstock.transform.image.kernel import ImageKernel, fuse

ROWS, SIDE = 40, 16
DRAWS = 20_000


def kernel(*ops: I.ImageOp) -> ImageKernel:
    return fuse(ops, Field("uint8", (SIDE, SIDE, 3)), lambda: (SIDE, SIDE))


def drawn(*ops: I.ImageOp, rows: int = DRAWS) -> dict[int, dict[str, Any]]:
    program = kernel(*ops).program
    found: dict[int, dict[str, Any]] = {}
    for number, name, row, value in program.drawn_from(SIDE, SIDE, np.arange(rows), 7):
        found.setdefault(number, {}).setdefault(name, np.full(rows, np.nan))[row] = value
    return found


@pytest.fixture(scope="module")
def pixels() -> Any:
    return np.random.default_rng(0).integers(0, 255, (ROWS, SIDE, SIDE, 3), dtype=np.uint8)


@pytest.mark.slow
def test_chances_are_what_they_say() -> None:
    applied = drawn(I.RandomApply([I.RandomHorizontalFlip(p=0.5)], p=0.2))
    assert applied[0]["applied"].mean() == pytest.approx(0.2, abs=0.01)
    inner = applied[path_number(0, 0)]["applied"]
    assert np.array_equal(np.isnan(inner), applied[0]["applied"] == 0)
    assert np.nanmean(inner) == pytest.approx(0.5, abs=0.03)
    flips = [I.RandomHorizontalFlip(), I.RandomVerticalFlip(), I.RandomInvert()]
    chosen = drawn(I.RandomChoice(flips, p=[1, 0, 3]))[0]["chosen"]
    assert np.bincount(chosen.astype(int), minlength=3) / DRAWS == pytest.approx([0.25, 0, 0.75], abs=0.01)
    assert np.bincount(drawn(I.RandomChoice(flips))[0]["chosen"].astype(int)) / DRAWS == pytest.approx(
        [1 / 3] * 3, abs=0.012
    )


def test_every_order_is_equally_likely() -> None:
    ops = [I.RandomInvert(p=1), I.RandomSolarize(128, p=1), I.RandomPosterize(3, p=1)]
    places = kernel(I.RandomOrder(ops)).program.drawn_from(SIDE, SIDE, np.arange(6_000), 3)
    orders = np.array([value for _, name, _, value in places if name == "next"]).reshape(-1, 3)
    _, counts = np.unique(orders, axis=0, return_counts=True)
    assert len(counts) == 6
    assert counts == pytest.approx(1_000, abs=130)


def test_orders_and_choices_are_done_as_they_are_drawn(pixels: Any) -> None:
    tables = [I.RandomInvert(p=1), I.RandomSolarize(100, p=1), I.RandomPosterize(3, p=1)]
    made, order = run(pixels, I.RandomOrder(tables)), orders_of(I.RandomOrder(tables))
    choice = drawn(I.RandomChoice(tables), rows=ROWS)[0]["chosen"].astype(int)
    chosen = run(pixels, I.RandomChoice(tables))
    functions = [np.frombuffer(op.table(), np.uint8) for op in tables]
    for row in range(ROWS):
        expected = pixels[row]
        for place in order[row]:
            expected = functions[place][expected]
        assert np.array_equal(made[row], expected)
        assert np.array_equal(chosen[row], functions[choice[row]][pixels[row]])


def run(pixels: Any, *ops: I.ImageOp) -> Any:
    made = kernel(*ops, I.ToLayout("NHWC"))
    out = np.empty((ROWS, *made.field.shape), np.uint8)
    made(pixels, np.arange(ROWS), key=7, out=out, threads=2)
    return out


def orders_of(op: I.ImageOp) -> Any:
    every = kernel(op).program.drawn_from(SIDE, SIDE, np.arange(ROWS), 7)
    return np.array([value for _, name, _, value in every if name == "next"], int).reshape(ROWS, -1)


@pytest.mark.slow
def test_an_op_more_changes_no_others_numbers() -> None:
    flip = I.RandomHorizontalFlip()
    few = drawn(I.RandomApply([flip], p=1), I.RandomVerticalFlip())
    more = drawn(I.RandomApply([flip, I.RandomInvert(), I.Compose([I.RandomSolarize(9)])], p=1), I.RandomVerticalFlip())
    for number in (path_number(0, 0), 1):
        assert np.array_equal(few[number]["applied"], more[number]["applied"])
    assert not np.array_equal(more[path_number(0, 0)]["applied"], more[path_number(0, 1)]["applied"])
    assert path_number(path_number(0, 2), 0) in more


#: Chains of an image and its mask that draw together, and whether both end alike.
TOGETHER: dict[str, tuple[list[I.ImageOp], list[I.ImageOp], bool]] = {
    "the same": ([I.RandomApply([I.RandomHorizontalFlip()])], [I.RandomApply([I.RandomHorizontalFlip()])], True),
    "colours behind": (
        [I.RandomApply([I.RandomHorizontalFlip(), I.RandomInvert(p=0)])],
        [I.RandomApply([I.RandomHorizontalFlip()])],
        True,
    ),
    "warps in any order": (
        [I.RandomOrder([I.RandomHorizontalFlip(), I.RandomRotation(30)])],
        [I.RandomOrder([I.RandomHorizontalFlip(), I.RandomRotation(30)])],
        True,
    ),
    "another flip": ([I.RandomApply([I.RandomHorizontalFlip()])], [I.RandomApply([I.RandomVerticalFlip()])], False),
    "another chance": (
        [I.RandomApply([I.RandomHorizontalFlip(0.1)])],
        [I.RandomApply([I.RandomHorizontalFlip()])],
        False,
    ),
    "colours before": (
        [I.RandomApply([I.RandomInvert(p=0), I.RandomHorizontalFlip()])],
        [I.RandomApply([I.RandomHorizontalFlip()])],
        False,
    ),
    "another order": (
        [I.RandomOrder([I.RandomHorizontalFlip(), I.RandomRotation(30)])],
        [I.RandomOrder([I.RandomRotation(30), I.RandomHorizontalFlip()])],
        False,
    ),
    "one more in order": (
        [I.RandomOrder([I.RandomHorizontalFlip(), I.RandomRotation(30), I.RandomInvert(p=0)])],
        [I.RandomOrder([I.RandomHorizontalFlip(), I.RandomRotation(30)])],
        False,
    ),
    "another choice": (
        [I.RandomChoice([I.RandomHorizontalFlip(1), I.RandomVerticalFlip(1)])],
        [I.RandomChoice([I.RandomVerticalFlip(1), I.RandomHorizontalFlip(1)])],
        False,
    ),
    "deeper": (
        [I.RandomApply([I.Compose([I.RandomHorizontalFlip()])])],
        [I.RandomApply([I.Compose([I.RandomVerticalFlip()])])],
        False,
    ),
    "a crop that draws nothing": ([I.RandomApply([I.CenterCrop(8), I.Resize((SIDE, SIDE))])], [], False),
    "a policy": ([I.RandomApply([I.TrivialAugmentWide()])], [], False),
}


@pytest.mark.parametrize(("image", "mask", "alike"), TOGETHER.values(), ids=TOGETHER)
def test_columns_that_draw_together_do_the_same_or_are_refused(
    pixels: Any, image: Sequence[I.ImageOp], mask: Sequence[I.ImageOp], alike: bool
) -> None:
    # RandomApply([flip]) of both matched whatever stood inside, and masks were mirrored the other way.
    data = ps.from_arrays({"image": pixels, "mask": pixels[..., :1].copy()})
    chains = {"image": [*image, I.ToLayout("NHWC")], "mask": [*mask, I.ToLayout("NHWC")]}
    if not alike:
        with pytest.raises(PlanError, match="needs the same random ops that move pixels"):
            data.transform(**chains, draws="together")
        return
    with ps.Loader(data.transform(**chains, draws="together").batch(ROWS)) as loader:
        batch = next(iter(loader))
    assert np.array_equal(batch["image"][..., :1], batch["mask"])
    assert not np.array_equal(batch["image"], pixels)


def test_a_crop_at_random_is_warned_of_where_a_mask_stays(pixels: Any) -> None:
    data = ps.from_arrays({"image": pixels, "mask": pixels[..., :1].copy()})
    ops = [I.RandomApply([I.CenterCrop(8), I.Resize((SIDE, SIDE))])]
    with pytest.warns(
        UserWarning, match="RandomApply moves the pixels of 'image' at random, and nothing moves those of 'mask'"
    ):
        data.transform(image=ops, mask=[I.ToLayout("NHWC")])


def test_composed_ops_are_the_ops_themselves(pixels: Any) -> None:
    ops = (I.CenterCrop(12), I.Resize((SIDE, SIDE)))
    assert np.array_equal(run(pixels, I.Compose(ops)), run(pixels, *ops))
    assert kernel(I.Compose(ops)).field == kernel(*ops).field


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: I.RandomApply([]), "give a list of image ops"),
        (lambda: I.RandomApply(["flip"]), "give a list of image ops"),
        (lambda: I.RandomApply([I.RandomInvert()], p=1.5), "a probability from 0 to 1"),
        (lambda: I.RandomChoice([I.RandomInvert()], p=[1, 2]), "a number from 0 on for each of the 1 ops"),
        (lambda: I.RandomChoice([I.RandomInvert()], p=[-1]), "a number from 0 on for each of the 1 ops"),
        (lambda: I.RandomChoice([I.RandomInvert()] * 2, p=[0, 0]), "a number from 0 on for each of the 2 ops"),
        (lambda: kernel(I.RandomApply([I.Normalize(I.IMAGENET)])), "changes what pixels are"),
        (lambda: kernel(I.RandomApply([I.Grayscale(1)])), "changes what pixels are"),
        (lambda: kernel(I.Normalize(I.IMAGENET), I.RandomApply([I.RandomInvert()])), "follows Normalize"),
        (lambda: I.RandomApply([I.MixUp(num_classes=2)]), "give a list of image ops"),
    ],
)
def test_what_cannot_stand_inside_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        make()


@pytest.mark.parametrize("inner", [I.RandomInvert(), I.RandomHorizontalFlip()])
def test_a_thousand_ops_inside_each_other_are_refused(inner: I.ImageOp) -> None:
    """Those that are taken are as quick as they look: what they say of ops that move pixels grows with the depth, and not with 2 to its power."""

    def deep(times: int) -> I.ImageOp:
        op = inner
        for _ in range(times):
            op = I.RandomApply([op])
        return op

    assert kernel(deep(32)).field.shape == (3, SIDE, SIDE)
    with pytest.raises(PlanError, match="nested 32 deep at most"):
        deep(1_000)
