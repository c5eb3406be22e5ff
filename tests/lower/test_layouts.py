"""Ops go on with pixels that other ops made, whatever stands between: they get the layout that these gave."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from support import promises

I = ps.image  # noqa: E741  # as users write it
ROWS = 12
Plan = Callable[[ps.Dataset, ps.Dataset], ps.Dataset]

BETWEEN: dict[str, Plan] = {
    "zip": lambda one, other: ps.zip([one, other]),
    "zip and cache": lambda one, other: ps.zip([one, other]).cache(),
    "zip and shuffle": lambda one, other: ps.zip([one, other]).shuffle(seed=1),
    "concat": lambda one, _: ps.concat([one, one]),
    "mix": lambda one, _: ps.mix([one, one], weights=[0.5, 0.5]),
    "mix with its source": lambda one, _: ps.mix([one, one], source="of"),
    "mix of a zip": lambda one, other: ps.mix([ps.zip([one, other]), ps.zip([one, other])]),
    "repeat": lambda one, _: one.repeat(2),
    "take": lambda one, _: one.take(8),
    "filter": lambda one, _: one.filter(lambda batch: batch["id"] != 3),
    "filter that looks at pixels": lambda one, _: one.filter(lambda batch: np.array([image.shape[0] == 3 for image in batch["image"]])),
    "an earlier transform of the column": lambda one, _: one.repeat(2).transform(image=I.RandomHorizontalFlip()).take(10),
}  # fmt: skip


def pixels(seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 256, (ROWS, 16, 12, 3), np.uint8)


def below(*more: Any) -> tuple[ps.Dataset, ps.Dataset]:
    ids = ps.from_arrays({"id": np.arange(ROWS), "image": pixels(0)})
    others = ps.from_arrays({"mask": pixels(1)})
    return ids.transform(image=[I.CenterCrop((10, 9)), *more]), others.transform(mask=[I.CenterCrop((10, 9)), *more])


def batches(plan: ps.Dataset, ranks: int = 1, **options: Any) -> list[dict[str, Any]]:
    plan = plan.transform(image=[I.RandomResizedCrop((6, 5))]).batch(4, steps=3)
    loaders = [ps.Loader(plan, rank=rank, world_size=ranks, **options) for rank in range(ranks)]
    return [promises.join([*map(promises.keep, parts)]) for parts in zip(*loaders, strict=True)]


@pytest.mark.filterwarnings("ignore:.*moves the pixels")
@pytest.mark.parametrize("name", BETWEEN)
def test_a_chain_goes_on_behind_any_verb(name: str) -> None:
    """As if the chain below had ended channels last, with the same random numbers, on any ranks; a filter's function sees what it would see alone."""
    found = batches(BETWEEN[name](*below()))
    assert found[0]["image"].shape == (4, 3, 6, 5)
    for here, again in zip(batches(BETWEEN[name](*below()), 2), found, strict=True):
        promises.assert_same(here, again)
    if name not in ("filter that looks at pixels", "an earlier transform of the column"):
        for here, wanted in zip(batches(BETWEEN[name](*below(I.ToLayout("NHWC")))), found, strict=True):
            assert (here["image"] == wanted["image"]).all()


def test_pixels_stay_where_they_are() -> None:
    one, other = below()
    plan = ps.zip([one, other]).transform(image=I.CenterCrop((6, 5)), mask=[I.CenterCrop((6, 5)), I.ToLayout("NHWC")])
    (batch,) = ps.Loader(plan.batch(ROWS))
    begin = slice(5, 11), slice(4, 9)
    assert (batch["image"] == pixels(0)[:, *begin].transpose(0, 3, 1, 2)).all()
    assert (batch["mask"] == pixels(1)[:, *begin]).all()


def test_a_palette_is_not_averaged_behind_a_zip(tmp_path: Path) -> None:
    from PIL import Image

    for row in range(4):
        Image.fromarray(pixels(row)[0, :, :, 0]).convert("P").save(tmp_path / f"{row}.png")
    masks = ps.read(tmp_path, columns={"mask": "image"}).transform(mask=I.Decode("P"))
    both = ps.zip([ps.from_arrays({"id": np.arange(4)}), masks])
    with pytest.raises(ps.PlanError, match="averages the indices of a palette"):
        ps.Loader(both.transform(mask=I.Resize((4, 4))).batch(2))
    assert next(iter(ps.Loader(both.transform(mask=I.Resize((4, 4), "nearest")).batch(2))))["mask"].shape == (
        2,
        1,
        4,
        4,
    )


def test_behind_a_function_the_error_says_what_to_write() -> None:
    one, _ = below()
    with pytest.raises(ps.PlanError, match=r'ToLayout\("NHWC"\) at the end of their chain'):
        batches(one.map(dict))
    assert batches(below(I.ToLayout("NHWC"))[0].map(dict))[0]["image"].shape == (4, 3, 6, 5)
