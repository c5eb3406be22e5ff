"""`loader.draws`: what ops drew is what the images show, on any number of ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps

I = ps.image  # noqa: E741
ROWS, SIDE = 24, 16


@pytest.fixture
def pixels() -> Any:
    """Images whose pixels are all different, each row's in a range of its own."""
    return np.random.default_rng(0).integers(0, 255, (ROWS, SIDE, SIDE, 3), dtype=np.uint8)


def plan(pixels: Any) -> ps.Dataset:
    ops = [
        I.RandomApply([I.RandomHorizontalFlip(p=1), I.RandomInvert(p=0.5)], p=0.5),
        I.RandomVerticalFlip(),
        I.ToLayout("NHWC"),
    ]
    return ps.from_arrays({"image": pixels, "label": np.arange(ROWS)}).transform(image=ops).shuffle(seed=3).batch(8)


def remade(image: Any, drawn: dict[str, Any], row: int) -> Any:
    if drawn["0 RandomApply"]["applied"][row]:
        image = image[:, ::-1]
    if drawn["0 RandomApply / 1 RandomInvert"]["applied"][row] == 1:
        image = 255 - image
    return image[::-1] if drawn["1 RandomVerticalFlip"]["applied"][row] else image


@pytest.mark.parametrize("world_size", [1, 2])
def test_what_was_drawn_is_what_the_images_show(pixels: Any, world_size: int) -> None:
    applied = set[float]()
    for rank in range(world_size):
        with ps.Loader(plan(pixels), rank=rank, world_size=world_size) as loader:
            for epoch, step in ((0, 0), (0, 2), (3, 1)):
                batch, drawn = loader.batch_at(epoch, step), loader.draws(epoch, step)["image"]
                for row, label in enumerate(batch["label"]):
                    assert np.array_equal(batch["image"][row], remade(pixels[label], drawn, row))
                applied |= set(
                    drawn["0 RandomApply / 1 RandomInvert"]["applied"][
                        ~np.isnan(drawn["0 RandomApply / 1 RandomInvert"]["applied"])
                    ]
                )
                assert np.array_equal(
                    np.isnan(drawn["0 RandomApply / 1 RandomInvert"]["applied"]), drawn["0 RandomApply"]["applied"] == 0
                )
    assert applied == {0, 1}


def test_rows_of_several_sources_and_ops_on_batches(pixels: Any) -> None:
    flips = [I.RandomHorizontalFlip()]
    grey = ps.from_arrays({"image": pixels, "label": np.arange(ROWS)}).transform(image=[I.RandomVerticalFlip()])
    mixed = ps.mix([grey, ps.from_arrays({"image": pixels, "label": np.arange(ROWS)}).transform(image=flips)])
    data = mixed.batch(8).transform(I.MixUp(0.4, num_classes=ROWS))
    with ps.Loader(data) as loader:
        drawn = loader.draws(0, 1)
    vertical, horizontal = (drawn["image"][f"0 Random{name}Flip"]["applied"] for name in ("Vertical", "Horizontal"))
    assert np.array_equal(np.isnan(vertical), ~np.isnan(horizontal))
    assert 0 < drawn["MixUp"]["lam"] < 1
    assert drawn["MixUp"]["shift"] in range(1, 8)


def test_encoded_images_and_steps_that_are_not_known(tmp_path: Path, pixels: Any) -> None:
    from PIL import Image

    for number in range(6):
        Image.fromarray(pixels[number]).save(tmp_path / f"{number}.png")
    data = ps.read(str(tmp_path)).transform(image=[I.Decode(), I.RandomResizedCrop(8), I.ToLayout("NHWC")])
    with ps.Loader(data.batch(3)) as loader:
        part = loader.draws(1, 1)["image"]["1 RandomResizedCrop"]
        assert loader.draws(1, 1)["image"]["1 RandomResizedCrop"]["top"].tolist() == part["top"].tolist()
        assert (part["top"] + part["height"] <= SIDE).all()
        assert ((part["left"] >= 0) & (part["width"] >= 1)).all()
        with pytest.raises(ps.PlanError, match="an epoch has the steps 0 … 1"):
            loader.draws(0, 2)
    unknown = ps.Loader(data.filter(lambda image: [True] * len(image)).batch(2, steps=3))
    with unknown, pytest.raises(ps.PlanError, match="draws: what a step holds is not known in advance"):
        unknown.draws(0, 0)
