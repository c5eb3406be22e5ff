"""torchvision's transforms become the native ops that one would write by hand, with torchvision's pixels; what has none runs as Python, and says so."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import transforms as v1
from torchvision import tv_tensors
from torchvision.transforms import v2

import penstock as ps
from penstock.core.errors import PlanError
from penstock.transform import image as I  # noqa: N812
from penstock.transform.recipe import NATIVE, NEARLY, PYTHON

SIDE = 33
TO_FLOAT = v2.ToDtype(torch.float32, scale=True)
NORMALIZE = v2.Normalize([0.5, 0.4, 0.3], [0.2, 0.3, 0.4])


class MyFlip(v2.RandomHorizontalFlip):
    """May do anything."""


#: A transform of tensors, and what one would write by hand.
BY_HAND: list[tuple[Any, list[I.ImageOp]]] = [
    (v2.Resize(20), [I.Resize(20)]),
    (v2.Resize((20, 24), interpolation=v2.InterpolationMode.BICUBIC), [I.Resize((20, 24), "bicubic")]),
    (v2.Resize(20, interpolation=2, antialias=False, max_size=40), [I.Resize(20, max_size=40, antialias=False)]),
    (v2.CenterCrop((20, 40)), [I.CenterCrop((20, 40))]),
    (v2.RandomResizedCrop(16, (0.2, 1), (1, 2), 3), [I.RandomResizedCrop(16, (0.2, 1), (1, 2), "bicubic")]),
    (v2.RandomHorizontalFlip(0.3), [I.RandomHorizontalFlip(0.3)]),
    (v2.RandomVerticalFlip(1), [I.RandomVerticalFlip(1)]),
    (v2.FiveCrop(20), [I.FiveCrop(20)]),
    (v2.TenCrop((20, 24), vertical_flip=True), [I.TenCrop((20, 24), vertical_flip=True)]),
    (v2.Pad([1, 2], fill=(1, 2, 3)), [I.Pad((1, 2), (1, 2, 3))]),
    (v2.Pad(3, fill={tv_tensors.Image: 7, "others": 0}), [I.Pad(3, 7)]),
    (v2.RandomCrop(20, padding=4, padding_mode="reflect"), [I.RandomCrop(20, (4, 4, 4, 4), padding_mode="reflect")]),
    (v2.RandomRotation(15, v2.InterpolationMode.BILINEAR), [I.RandomRotation(15, "bilinear")]),
    (v2.RandomAffine(9, (0.1, 0.2), (0.9, 1.1), 5), [I.RandomAffine(9, (0.1, 0.2), (0.9, 1.1), (-5, 5))]),
    (v2.RandomPerspective(0.3, p=0.7, fill=None), [I.RandomPerspective(0.3, 0.7, fill=None)]),
    (v2.ElasticTransform(40.0, 4.0), [I.ElasticTransform(40, 4)]),
    (v2.RandomZoomOut(9, p=0.2), [I.RandomZoomOut(9, (1, 4), 0.2)]),
    (v2.RandomShortestSize([20, 24], 40), [I.RandomShortestSize([20, 24], 40)]),
    (v2.RandomResize(20, 30), [I.RandomResize(20, 30)]),
    (v2.ScaleJitter((30, 40)), [I.ScaleJitter((30, 40))]),
    (v2.ColorJitter(0.4, (0.5, 1), 0, 0.1), [I.ColorJitter(0.4, (0.5, 1), None, 0.1)]),
    (v2.Grayscale(3), [I.Grayscale(3)]),
    (v2.RandomGrayscale(0.2), [I.RandomApply([I.Grayscale(3)], 0.2)]),
    (v2.RandomInvert(0.1), [I.RandomInvert(0.1)]),
    (v2.RandomSolarize(128, 1.0), [I.RandomSolarize(128, 1.0)]),
    (v2.RandomPosterize(3), [I.RandomPosterize(3)]),
    (v2.RandomEqualize(), [I.RandomEqualize()]),
    (v2.RandomAutocontrast(), [I.RandomAutocontrast()]),
    (v2.RandomAdjustSharpness(2), [I.RandomAdjustSharpness(2)]),
    (v2.RandomPhotometricDistort(), [I.RandomPhotometricDistort()]),
    (v2.RandomChannelPermutation(), [I.RandomChannelPermutation()]),
    (v2.GaussianBlur(5), [I.GaussianBlur(5)]),
    (v2.GaussianNoise(sigma=0.2), [I.GaussianNoise(sigma=0.2)]),
    (v2.JPEG((30, 90)), [I.JPEG((30, 90))]),
    (v2.AutoAugment(v2.AutoAugmentPolicy.SVHN), [I.AutoAugment("svhn")]),
    (v2.RandAugment(3, 7), [I.RandAugment(3, 7)]),
    (v2.TrivialAugmentWide(fill=[1.0, 2.0, 3.0]), [I.TrivialAugmentWide(fill=(1, 2, 3))]),
    (v2.AugMix(), [I.AugMix()]),
    (v2.Identity(), []),
    (v2.RGB(), []),
    (v2.RandomApply([v2.ColorJitter(0.1), v2.Identity()], 0.2), [I.RandomApply([I.ColorJitter(0.1)], 0.2)]),
    (
        v2.RandomChoice([v2.RandomInvert(1), v2.Identity()], p=[3, 1]),
        [I.RandomChoice([I.RandomInvert(1), I.RandomHorizontalFlip(0.0)], [0.75, 0.25])],
    ),
    (
        v2.RandomOrder([v2.Compose([v2.RandomInvert(), v2.RandomEqualize()]), v2.JPEG(50)]),
        [I.RandomOrder([I.Compose([I.RandomInvert(), I.RandomEqualize()]), I.JPEG(50)])],
    ),
    (
        v2.Compose([TO_FLOAT, NORMALIZE, v2.RandomErasing(0.2, value="random")]),
        [
            I.ToDtype("float32", scale=True),
            I.Normalize([0.5, 0.4, 0.3], [0.2, 0.3, 0.4]),
            I.RandomErasing(0.2, value="random"),
        ],
    ),
]


@pytest.mark.parametrize(("transform", "ops"), BY_HAND, ids=lambda one: type(one).__name__)
def test_a_transform_becomes_the_ops_that_one_would_write(transform: Any, ops: list[I.ImageOp]) -> None:
    recipe = I.from_torchvision(transform, decode=None, strict=True)
    assert list(recipe) == ops
    assert {step.how for step in recipe.steps} == {NATIVE}


#: Transforms whose results are fixed, and how many levels they may differ.
FIXED: list[tuple[Any, int]] = [
    (v2.Compose([v2.Resize((20, 24)), v2.CenterCrop(22), v2.RandomHorizontalFlip(1)]), 1),
    (v2.Compose([v2.Pad(2, padding_mode="symmetric"), v2.RandomVerticalFlip(1), v2.Grayscale(3)]), 0),
    (v2.Compose([v2.RandomSolarize(100, 1), v2.RandomPosterize(3, 1), v2.RandomEqualize(1)]), 0),
    (v2.Compose([v2.JPEG(60), v2.RandomInvert(1), v2.GaussianBlur(5, 1.0)]), 1),
    (v1.Compose([v1.ToPILImage(), v1.Resize((20, 24)), v1.Grayscale(3), v1.PILToTensor()]), 1),
]


@pytest.fixture(scope="module")
def pixels() -> Any:
    rng = np.random.default_rng(0)
    return rng.integers(0, 255, (6, SIDE, SIDE + 8, 3), dtype=np.uint8)


def rows(pixels: Any, recipe: Any, **options: Any) -> Any:
    return np.concatenate(
        [batch["x"] for batch in ps.Loader(ps.from_arrays({"x": pixels}).transform(x=recipe).batch(2), **options)]
    )


def by_torchvision(transform: Any, pixels: Any) -> Any:
    return np.stack([np.asarray(transform(torch.from_numpy(one).permute(2, 0, 1).contiguous())) for one in pixels])


@pytest.mark.parametrize(("transform", "levels"), FIXED)
def test_pixels_are_torchvisions(pixels: Any, transform: Any, levels: int) -> None:
    made = rows(pixels, I.from_torchvision(transform, decode=None, strict=True))
    wanted = by_torchvision(transform, pixels)
    assert made.shape == wanted.shape
    assert np.abs(made.astype(int) - wanted).max() <= levels


def test_the_end_runs_as_python_with_torchvisions_own_result(pixels: Any) -> None:
    transform = v2.Compose([v2.CenterCrop(20), v2.Lambda(lambda image: image // 2), TO_FLOAT, NORMALIZE])
    recipe = I.from_torchvision(transform, decode=None)
    assert [step.how for step in recipe.steps] == [NATIVE, PYTHON, PYTHON, PYTHON]
    assert np.array_equal(rows(pixels, recipe), by_torchvision(transform, pixels))
    with pytest.raises(PlanError, match="Lambda of this recipe runs as Python"):
        list(recipe)
    with pytest.raises(PlanError, match="Lambda has no native op"):
        I.from_torchvision(transform, strict=True)


@pytest.mark.filterwarnings("ignore:penstock. map_rows")
def test_an_end_that_draws_repeats_on_ranks_and_resumed(pixels: Any) -> None:
    recipe = I.from_torchvision([v2.RandomCrop(20), MyFlip(), v2.RandomErasing(1)], decode=None)
    plan = ps.from_arrays({"x": pixels}).transform(x=recipe).batch(2, lanes=2)
    whole = [batch["x"] for batch in ps.Loader(plan)]
    ranks = [[batch["x"] for batch in ps.Loader(plan, rank=rank, world_size=2)] for rank in range(2)]
    assert all(np.array_equal(one, np.concatenate(both)) for one, *both in zip(whole, *ranks, strict=True))
    loader = ps.Loader(plan)
    next(iter(loader))
    resumed = ps.Loader(plan)
    resumed.load_state_dict(loader.state_dict())
    assert np.array_equal(next(iter(resumed))["x"], whole[1])


def test_images_of_several_sizes_are_left_to_python_with_the_decoding() -> None:
    recipe = I.from_torchvision(v2.Compose([v2.Resize(40), v2.Lambda(lambda image: image), v2.CenterCrop(20)]))
    assert recipe.ops == ()
    assert recipe.steps[0] == ("Decode", PYTHON, "images have several sizes until then, which no batch can hold")


def test_a_function_gets_the_crops_of_an_image_one_by_one(pixels: Any) -> None:
    transform = v2.Compose([v2.CenterCrop(30), v2.FiveCrop(20), v2.Lambda(lambda crop: crop // 2)])
    recipe = I.from_torchvision(transform, decode=None)
    assert [step.how for step in recipe.steps] == [NATIVE, PYTHON, PYTHON]
    wanted = np.stack([np.stack(transform(tv_tensors.Image(one.transpose(2, 0, 1)))) for one in pixels])
    assert np.array_equal(rows(pixels, recipe), wanted)


def test_the_crops_of_torchvisions_own_example_are_pil_images(pixels: Any) -> None:
    stack = v1.Lambda(lambda crops: torch.stack([v1.PILToTensor()(crop) for crop in crops]))
    transform = v1.Compose([v1.CenterCrop(30), v1.FiveCrop(20), stack])
    wanted = np.stack([transform(Image.fromarray(one)).numpy() for one in pixels])
    assert np.array_equal(rows(pixels, I.from_torchvision(transform, decode=None)), wanted)


def test_explain_tells_of_every_step(pixels: Any) -> None:
    recipe = I.from_torchvision([v2.CenterCrop(20), v2.ColorJitter(hue=0.1), v2.PILToTensor(), MyFlip()], decode=None)
    text = ps.from_arrays({"x": pixels}).transform(x=recipe).explain()
    assert "Recipe of 'x'" in text
    assert "native with another tolerance: of PIL images" in text
    assert "MyFlip" in text
    assert "run as Python: it has no native equivalent" in text


@pytest.mark.parametrize(
    "transform",
    [
        v2.Resize(20, interpolation=v2.InterpolationMode.NEAREST),
        v2.Resize(20, interpolation=v2.InterpolationMode.LANCZOS),
        v2.Resize(None, max_size=40),
        v2.Resize(20, antialias=None),
        v2.Pad(1, fill={tv_tensors.Mask: 1}),
        v2.ToDtype(torch.float64),
        NORMALIZE,
        v2.RandomApply([v2.Lambda(lambda image: image)]),
        v2.LinearTransformation(torch.eye(3), torch.zeros(3)),
        functools.partial(v2.functional.hflip),
        lambda image: image,
        MyFlip(),
    ],
    ids=lambda given: type(given).__name__,
)
def test_what_has_no_native_op_is_not_native(transform: Any) -> None:
    recipe = I.from_torchvision(transform)
    assert [step.how for step in recipe.steps][-1] == PYTHON
    assert recipe.steps[-1].why
    assert "0x" not in str(recipe)


def test_of_pil_images_colours_have_another_tolerance() -> None:
    (step, _) = I.from_torchvision([v1.ColorJitter(0.1), v1.ToTensor()]).steps
    assert step.how == NEARLY


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (None, "no transform of torchvision"),
        (3, "no transform of torchvision"),
        ("Resize", "no transform of torchvision"),
        ([], "no transforms"),
        (v2.RandomHorizontalFlip, "is a class"),
        (v2.RandomIoUCrop(), "works on boxes"),
        (v2.MixUp(num_classes=3), "whole batches"),
    ],
    ids=str,
)
def test_bad_input(given: Any, why: str) -> None:
    with pytest.raises(PlanError, match=why):
        I.from_torchvision(given)


def test_nothing_follows_an_end_in_python(pixels: Any) -> None:
    data = ps.from_arrays({"x": pixels, "mask": pixels})
    recipe = I.from_torchvision([v2.CenterCrop(20), MyFlip()], decode=None)
    with pytest.raises(PlanError, match="cannot follow"):
        data.transform(x=recipe, mask=[I.CenterCrop(20)], draws="together")


def test_every_class_of_torchvision_is_told(pixels: Any) -> None:
    """A class that torchvision adds is neither native nor forgotten: it runs as Python until somebody looks at it."""
    from penstock.transform.image.recipes.torchvision import ON_BOXES_OR_BATCHES
    from penstock.transform.image.recipes.torchvision_ops import OPS

    nested = {"Compose", "RandomApply", "RandomChoice", "RandomOrder"}
    python = {"Lambda", "LinearTransformation", "UniformTemporalSubsample"}
    classes = {name for name, one in vars(v2).items() if isinstance(one, type) and issubclass(one, v2.Transform)}
    assert classes - {"Transform"} - {*OPS} - nested == python | {*ON_BOXES_OR_BATCHES}
