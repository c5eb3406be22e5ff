"""What lies along with an image is seen behind each op where that op put it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.core.columns.op_step import OpStep
from penstock.tools.few_rows import FewRows
from support.images import encoded, picture

I = ps.image  # noqa: E741  # as users write it

MASK = np.arange(60 * 80).reshape(60, 80) // 1000 % 5
OPS = (
    I.RandomPhotometricDistort(p=1),
    I.RandomZoomOut(p=0.7),
    I.RandomIoUCrop(),
    I.RandomHorizontalFlip(),
    I.RandomRotation(20),
    I.Resize((40, 50)),
    I.ToDtype("float32", scale=True),
)


def data(*, is_dense: bool, rows: int = 6) -> Any:
    photos = [picture(80, 60, seed=seed) for seed in range(rows)]
    images = np.stack([*map(np.asarray, photos)]) if is_dense else [encoded(photo, "PNG") for photo in photos]
    return ps.from_dataset(
        [
            {
                "image": images[row],
                "boxes": np.float32([[5, 5, 40, 30], [30, 20, 79, 59], [0, 40, 20, 60]]),
                "label": np.int64([0, 1, 2]),
                "points": np.float32([[9, 9], [50, 30]]),
                "mask": MASK.astype(np.uint8),
            }
            for row in range(rows)
        ]
    )


def along(dataset: Any, ops: Any) -> Any:
    boxes = [I.Boxes(of="image", labels=("label",)), I.SanitizeBoundingBoxes()]
    return dataset.transform(image=ops, boxes=boxes, points=I.KeyPoints(of="image"), mask=I.Mask(of="image"))


def steps_of(plan: Any, rows: int) -> list[list[OpStep]]:
    with FewRows(plan.root) as few:
        return [row["image"] for row in few.head_in_steps(rows)[1]]


@pytest.mark.parametrize("is_dense", [True, False])
def test_the_last_step_is_what_a_loader_gives(is_dense: bool) -> None:
    plan = along(data(is_dense=is_dense), OPS if is_dense else (I.Decode("RGB"), *OPS))
    for row, steps in enumerate(steps_of(plan, 6)):
        assert [step.note for step in steps] == [""] * len(steps)
        made = plan[row]
        assert np.array_equal(steps[-1].pixels, np.moveaxis(made["image"], 0, 2))
        for name in ("boxes", "label", "points", "mask"):
            assert np.array_equal(steps[-1].columns[name], made[name]), name


def test_a_step_is_what_the_chain_up_to_it_makes() -> None:
    dataset, count = data(is_dense=True, rows=1), 5
    steps = steps_of(along(dataset, OPS), 1)[0]
    for place in range(count):
        height, width = steps[place].size or (0, 0)
        made = along(dataset, (*OPS[: place + 1], I.CenterCrop((height, width))))[0]
        assert np.array_equal(steps[place].pixels, np.moveaxis(made["image"], 0, 2)), place
        for name in ("boxes", "points", "mask"):
            assert np.array_equal(steps[place].columns[name], made[name]), (place, name)


def test_sizes_behind_a_crop_that_looks_at_boxes_are_its_own() -> None:
    found = steps_of(along(data(is_dense=True), OPS), 6)
    cropped = [row for row in found if "height" in row[2].drawn]
    assert cropped
    for row in cropped:
        assert row[2].size == row[3].size == (row[2].drawn["height"], row[2].drawn["width"])


def test_instances_are_seen() -> None:
    dataset = ps.from_arrays(
        {
            "image": np.stack([np.asarray(picture(80, 60))]),
            "boxes": np.float32([[[5, 5, 40, 30], [30, 20, 79, 59]]]),
            "mask": np.stack([np.stack([MASK == 1, MASK == 2])]),
        }
    )
    plan = dataset.transform(
        image=[I.RandomHorizontalFlip(p=1), I.Resize((30, 40))],
        boxes=I.Boxes(of="image", labels="mask"),
        mask=I.Mask(of="image"),
    )
    (steps,) = steps_of(plan, 1)
    assert np.array_equal(steps[0].columns["mask"], np.stack([MASK == 1, MASK == 2])[:, :, ::-1])
    assert np.shape(steps[1].columns["mask"]) == (2, 30, 40)


def test_all_of_it_is_drawn_at_every_step(tmp_path: Path) -> None:
    along(data(is_dense=True), OPS).show(2, steps=True, html=tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("mask: 0, 1") == page.count("<b>") == 14
    assert "not drawn" not in page
    data(is_dense=True).show(1, html=tmp_path / "page.html", boxes=I.Boxes(of="image", labels="label"))
    assert (tmp_path / "page.html").read_text(encoding="utf-8").count("<rect") == 3
