"""Published recipes are what their sources write, and their views are decoded once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from torchvision.transforms import v2

import penstock as ps
from penstock.core.columns.spec import Field
from penstock.core.draw_keys import DrawKeys
from penstock.core.errors import PlanError
from penstock.transform import image as I  # noqa: N812
from penstock.transform.family import Site, Workspace
from penstock.transform.image.family import ImageColumns
from support.images import encoded, picture, spans

MEAN_STD = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
NUMBERS = [v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(*MEAN_STD)]
BICUBIC = v2.InterpolationMode.BICUBIC
BLUR = v2.GaussianBlur(9, (0.1, 2.0))
DINO = [
    v2.RandomHorizontalFlip(0.5),
    v2.RandomApply([v2.ColorJitter(brightness=0.4, contrast=0.4, saturation=0.2, hue=0.1)], p=0.8),
    v2.RandomGrayscale(0.2),
]


def dino(size: int, scale: tuple[float, float], *blurred: Any) -> list[Any]:
    return [v2.RandomResizedCrop(size, scale, interpolation=BICUBIC), *DINO, *blurred, *NUMBERS]


SIMCLR = [
    v2.RandomResizedCrop(224, interpolation=BICUBIC),
    v2.RandomHorizontalFlip(),
    v2.RandomApply([v2.ColorJitter(0.8, 0.8, 0.8, 0.2)], 0.8),
    v2.RandomGrayscale(0.2),
    v2.RandomApply([v2.GaussianBlur(23, (0.1, 2.0))], 0.5),
    *NUMBERS[:2],
]


def centre_of(shorter: int, size: int, interpolation: Any = BICUBIC) -> list[Any]:
    return [v2.Resize(shorter, interpolation), v2.CenterCrop(size), *NUMBERS]


#: As torchvision's references and the papers' repositories write them, column by column.
SOURCES: dict[str, dict[str, list[Any]]] = {
    "resnet50-v2": {
        "image": [
            v2.RandomResizedCrop(176),
            v2.RandomHorizontalFlip(0.5),
            v2.TrivialAugmentWide(interpolation=v2.InterpolationMode.BILINEAR),
            *NUMBERS,
            v2.RandomErasing(0.1),
        ]
    },
    "simclr": {"image": SIMCLR, "view": SIMCLR},
    "dino": {
        "image": dino(224, (0.4, 1.0), BLUR),
        "view": dino(224, (0.4, 1.0), v2.RandomApply([BLUR], 0.1), v2.RandomSolarize(128, 0.2)),
        **{f"local_{number}": dino(96, (0.05, 0.4), v2.RandomApply([BLUR], 0.5)) for number in range(1, 9)},
    },
}
TESTED = {
    "resnet50-v2": centre_of(232, 224, v2.InterpolationMode.BILINEAR),
    "deit": centre_of(256, 224),
    "dino": centre_of(256, 224),
}


def ops_of(steps: list[Any]) -> list[Any]:
    """Ours of torchvision's; Normalize takes bytes, too."""
    ops = list(I.from_torchvision(v2.Compose(steps), decode=None, strict=True))
    is_normal = any(isinstance(op, I.Normalize) for op in ops)
    return [op for op in ops if not (is_normal and isinstance(op, I.ToDtype))]


@pytest.mark.parametrize("name", SOURCES)
def test_a_recipe_is_its_source(name: Any) -> None:
    train = I.presets(name).train
    assert list(train) == list(SOURCES[name])
    for column, steps in SOURCES[name].items():
        given = train[column]
        ops = list(given.ops) if isinstance(given, I.From) else given[1:]
        assert ops == ops_of(steps)
    assert train["image"][0] == I.Decode("RGB")


@pytest.mark.parametrize("name", TESTED)
def test_a_model_is_tested_as_its_source_does(name: Any) -> None:
    assert I.presets(name).test == {"image": [I.Decode("RGB"), *ops_of(TESTED[name])]}


def test_deit_is_timms() -> None:
    """Its create_transform(224, is_training=True, auto_augment="rand-m9-mstd0.5-inc1", interpolation="bicubic", re_prob=0.25, re_mode="pixel")."""
    assert I.presets("deit").train["image"] == [
        I.Decode("RGB"),
        I.RandomResizedCrop(224, interpolation="bicubic"),
        I.RandomHorizontalFlip(),
        I.timm("rand-m9-mstd0.5-inc1"),
        I.Normalize(I.IMAGENET),
        I.RandomErasing(0.25, (0.02, 1 / 3), (0.3, 1 / 0.3), "random"),
    ]


@pytest.mark.parametrize("name", ["resnet50-v2", "deit", "simclr", "dino"])
def test_all_of_them_run(name: Any, photos: Path) -> None:
    preset = I.presets(name, size=48)
    plan = ps.read(photos).shuffle(seed=0).transform(**preset.train).batch(8, steps=1)
    plan = plan if preset.alphas is None else plan.transform(preset.mix(num_classes=2))
    (batch,) = ps.Loader(plan)
    sizes = {48} if name != "dino" else {48, 21}
    assert {batch[column].shape for column in preset.train} == {(8, 3, size, size) for size in sizes}
    assert batch["label"].shape == ((8, 2) if preset.alphas else (8,))
    assert ps.read(photos).transform(**preset.test).head(2)["image"].shape[:2] == (2, 3)


@pytest.mark.parametrize("name", ["simclr", "dino"])
def test_views_are_decoded_once(name: Any) -> None:
    train = I.presets(name, size=48).train
    chains = {column: (given,) if isinstance(given, I.From) else tuple(given) for column, given in train.items()}
    kernel = ImageColumns(chains, Site(fields={"image": Field("bytes")}))
    keys = {column: DrawKeys(np.arange(3), number) for number, column in enumerate(chains)}
    files = [encoded(picture(60, 50, row), "JPEG") for row in range(3)]
    kernel(
        {"image": spans(*files)},
        keys,
        Workspace(allocate=lambda _, field, rows: np.empty((rows, *field.shape), np.float32)),
    )
    assert kernel.counts() == {"jpeg": 3}


@pytest.mark.parametrize("name", ["simclr", "dino"])
def test_views_draw_for_themselves(name: Any, photos: Path) -> None:
    train, data = I.presets(name, size=48).train, ps.read(photos, columns=["image"])
    loader = ps.Loader(data.transform(**train).batch(8))
    drawn = loader.draws(epoch=0, step=0)
    crops = [next(of for op, of in drawn[column].items() if "RandomResizedCrop" in op)["left"] for column in train]
    assert len({tuple(one) for one in crops}) == len(train)
    alone = ps.Loader(data.transform(image=train["image"]).batch(8))
    assert np.array_equal(next(iter(loader))["image"], next(iter(alone))["image"])


def test_detection_is_torchvisions() -> None:
    steps = [v2.RandomPhotometricDistort(), v2.RandomZoomOut(fill=(123, 117, 104)), v2.RandomHorizontalFlip(0.5)]
    train = I.presets("detection-ssd").train
    distort, zoom, flip = ops_of(steps)
    resized = [I.Resize((300, 300), antialias=False), I.ToDtype("float32", scale=True)]
    assert train["image"] == [I.Decode("RGB"), distort, zoom, I.RandomIoUCrop(), flip, *resized]
    assert train["boxes"][-2:] == [I.ConvertBoundingBoxFormat("XYXY"), I.SanitizeBoundingBoxes()]


def test_segmentation_is_torchvisions() -> None:
    steps = [v2.RandomResize(260, 1040), v2.RandomHorizontalFlip(0.5), v2.RandomCrop(480, pad_if_needed=True), *NUMBERS]
    train = I.presets("segmentation").train
    assert train == {"image": [I.Decode("RGB"), *ops_of(steps)], "mask": I.Mask(of="image", fill=255)}


def test_boxes_go_along() -> None:
    files = [encoded(picture(60, 50, row), "JPEG") for row in range(8)]
    boxes = pa.array([[[5.0, 5.0, 50.0, 45.0], [20.0, 10.0, 59.0, 40.0]]] * 8, pa.list_(pa.list_(pa.float32(), 4)))
    data = ps.from_arrays({"image": files, "boxes": boxes, "label": pa.array([[1, 2]] * 8)})
    preset = I.presets("detection-ssd", size=48)
    for chains in (preset.train, preset.test):
        (batch,) = ps.Loader(data.transform(**chains).batch(8))
        assert batch["image"].shape == (8, 3, 48, 48)
        found = [np.array(one) for one in batch["boxes"].to_pylist()]
        assert [len(one) for one in found] == [len(one) for one in batch["label"].to_pylist()]
        every = np.concatenate([one.reshape(-1, 4) for one in found])
        assert every.min() >= 0
        assert every.max() <= 48
        assert np.all(every[:, 2:] > every[:, :2])


def test_masks_go_along() -> None:
    pixels = np.random.default_rng(0).integers(0, 3, (4, 60, 80), np.uint8)
    files = [encoded(picture(80, 60, row), "JPEG") for row in range(4)]
    preset = I.presets("segmentation", size=48)
    for chains, side in ((preset.train, 48), (preset.test, 52)):
        (batch,) = ps.Loader(ps.from_arrays({"image": files, "mask": pixels}).transform(**chains).batch(4))
        assert batch["image"].shape == (4, 3, side, side)
        assert batch["mask"].shape == (4, 1, side, side)
        assert set(np.unique(batch["mask"])) <= {0, 1, 2, 255}
        assert np.all(batch["image"][np.broadcast_to(batch["mask"] == 255, batch["image"].shape)] < -1.7)  # black


def test_a_column_of_another_name(photos: Path) -> None:
    train = I.presets("simclr", size=32, image="jpg").train
    assert list(train) == ["jpg", "view"]
    made = ps.read(photos, columns={"jpg": "image"}).transform(**train).head(2)
    assert made["view"].shape == (2, 3, 32, 32)


def test_bad_input() -> None:
    with pytest.raises(PlanError, match=r"there are resnet50-v2, .*did you mean 'simclr'"):
        I.presets("simcrl")  # type: ignore[arg-type]  # the mistake
    for given in (None, [], 3, {"simclr": 1}):
        with pytest.raises(PlanError, match="no recipe"):
            I.presets(given)  # type: ignore[arg-type]  # the mistake
    for size in (0, -1, 7, 1 << 17, 2.5, "224", (224, 224)):
        with pytest.raises(PlanError, match="from 8 on"):
            I.presets("deit", size=size)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(PlanError, match="name of the column"):
        I.presets("deit", image=3)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(PlanError, match="mixes no batches"):
        I.presets("dino").mix(num_classes=3)
