"""Albumentations' transforms become native ops with its pixels; what has none runs as Python, and repeats."""

from __future__ import annotations

from typing import Any

import albumentations as A  # noqa: N812
import numpy as np
import pytest

import penstock as ps
from penstock.core.errors import PlanError
from penstock.transform import image as I  # noqa: N812
from penstock.transform.recipe import NATIVE, PYTHON


@pytest.fixture(scope="module")
def pixels() -> Any:
    return np.random.default_rng(0).integers(0, 255, (8, 33, 41, 3), dtype=np.uint8)


def rows(pixels: Any, recipe: Any, **options: Any) -> Any:
    plan = ps.from_arrays({"x": pixels}).transform(x=recipe).batch(2, lanes=2)
    return np.concatenate([batch["x"] for batch in ps.Loader(plan, **options)])


BY_HAND: list[tuple[Any, list[I.ImageOp]]] = [
    (A.HorizontalFlip(p=0.3), [I.RandomHorizontalFlip(0.3)]),
    (A.VerticalFlip(p=1), [I.RandomVerticalFlip(1)]),
    (A.Resize(20, 24), [I.Resize((20, 24), antialias=False)]),
    (
        A.RandomResizedCrop((20, 24), (0.2, 1), (1, 2)),
        [I.RandomResizedCrop((20, 24), (0.2, 1), (1, 2), antialias=False)],
    ),
    (A.RandomCrop(20, 24), [I.RandomCrop((20, 24))]),
    (A.ChannelShuffle(p=0.2), [I.RandomApply([I.RandomChannelPermutation()], 0.2)]),
    (A.NoOp(), []),
    (
        A.OneOf([A.HorizontalFlip(p=0.3), A.InvertImg(p=0.1), A.NoOp(p=0.6)], p=0.4),
        [
            I.RandomApply(
                [
                    I.RandomChoice(
                        [I.RandomHorizontalFlip(1), I.RandomInvert(1), I.RandomHorizontalFlip(0.0)], [0.3, 0.1, 0.6]
                    )
                ],
                0.4,
            )
        ],
    ),
    (A.Sequential([A.HorizontalFlip(p=0.3)], p=1), [I.RandomHorizontalFlip(0.3)]),
]


@pytest.mark.parametrize(("transform", "ops"), BY_HAND, ids=lambda one: type(one).__name__)
def test_a_transform_becomes_the_ops_that_one_would_write(transform: Any, ops: list[I.ImageOp]) -> None:
    recipe = I.from_albumentations(A.Compose([transform, A.ToTensorV2()]), decode=None, strict=True)
    assert list(recipe) == ops
    assert {step.how for step in recipe.steps} == {NATIVE}


@pytest.mark.parametrize(
    ("transform", "within"),
    [
        (A.Compose([A.Resize(20, 24), A.HorizontalFlip(p=1), A.InvertImg(p=1)]), 1),
        (A.Compose([A.Resize(50, 60), A.VerticalFlip(p=1), A.ToTensorV2()]), 1),
        (A.Compose([A.Normalize(), A.ToTensorV2()]), 1e-5),
        (A.Compose([A.Normalize((10, 20, 30), (3, 4, 5), max_pixel_value=2.0)]), 1e-4),
        (A.ToFloat(p=1), 1e-6),
    ],
)
def test_pixels_are_albumentations(pixels: Any, transform: Any, within: float) -> None:
    made = rows(pixels, I.from_albumentations(transform, decode=None, strict=True))
    wanted = np.stack([np.asarray(transform(image=one)["image"]) for one in pixels])
    assert (made.shape, made.dtype) == (wanted.shape, wanted.dtype)
    assert np.abs(made.astype(float) - wanted).max() <= within


@pytest.mark.filterwarnings("ignore:penstock. map_rows")
def test_the_end_runs_as_python_and_repeats_on_ranks(pixels: Any) -> None:
    recipe = I.from_albumentations(A.Compose([A.RandomCrop(20, 24), A.ISONoise(p=1), A.HorizontalFlip()]), decode=None)
    assert [step.how for step in recipe.steps] == [NATIVE, PYTHON, PYTHON]
    whole = rows(pixels, recipe)
    assert whole.shape == (8, 20, 24, 3)
    assert np.array_equal(whole, rows(pixels, recipe))
    first, second = (rows(pixels, recipe, rank=rank, world_size=2) for rank in range(2))
    assert np.array_equal(whole, np.stack([first, second], axis=1).reshape(whole.shape))


def test_what_is_not_the_same_is_not_native(pixels: Any) -> None:
    for transform in (
        A.Resize(20, 20, interpolation=2),
        A.RandomCrop(9, 9, pad_if_needed=True),
        A.Blur(),
        A.CenterCrop(9, 9),
    ):
        assert I.from_albumentations(transform, decode=None).steps[0].how == PYTHON
        with pytest.raises(PlanError, match="no native op"):
            I.from_albumentations(transform, strict=True)


def test_bad_input() -> None:
    with_boxes = A.Compose([A.HorizontalFlip()], bbox_params=A.BboxParams("coco"))
    for given in (None, 3, A.HorizontalFlip, with_boxes):
        with pytest.raises(PlanError):
            I.from_albumentations(given)
