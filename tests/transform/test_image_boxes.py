"""Boxes: what is done to them, what their labels lose, and the crop that looks at them, as torchvision v2 does it."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from penstock.core.columns.ragged import ragged_column
from penstock.transform import image as I  # noqa: N812
from support.along import BOX_FORMATS as FORMATS
from support.along import HEIGHT, ROWS, WIDTH, applied, columns, drawn, lists
from support.tries import tries

torch = pytest.importorskip("torch")
v2 = pytest.importorskip("torchvision.transforms.v2")
tv_tensors = pytest.importorskip("torchvision.tv_tensors")
box_iou = pytest.importorskip("torchvision.ops").box_iou


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize(("before", "after"), [*product(FORMATS, FORMATS)])
def test_steps_on_boxes_are_torchvisions(before: Any, after: Any, dtype: str) -> None:
    given = columns(dtype, before)
    steps = (I.ClampBoundingBoxes(), I.ConvertBoundingBoxFormat(after), I.SanitizeBoundingBoxes(3, 40.5))
    made = lists(
        applied(given, {"image": (I.RandomHorizontalFlip(0),), "boxes": (I.Boxes(of="image", format=before), *steps)})[
            "boxes"
        ]
    )
    theirs = v2.Compose(
        [v2.ClampBoundingBoxes(), v2.ConvertBoundingBoxFormat(after), v2.SanitizeBoundingBoxes(3, 40.5, None)]
    )
    for row, one in enumerate(lists(given["boxes"])):
        boxes = torch.as_tensor(one.reshape(-1, 4)).to(getattr(torch, dtype))
        wanted = theirs(tv_tensors.BoundingBoxes(boxes, format=before, canvas_size=(HEIGHT, WIDTH))).numpy()
        assert made[row].reshape(-1, 4) == pytest.approx(wanted, abs=1e-4)


def test_what_boxes_lose_their_labels_lose() -> None:
    """Numbers, text, rows of numbers and masks of instances keep the rows that boxes keep."""
    random = np.random.default_rng(5)
    boxes = [
        np.float32([[0, 0, 9, 9], [5, 5, 5.5, 9], [-9, 0, 4, 4], [3, 3, 30, 30]])[: row % 5] for row in range(ROWS)
    ]
    counts = [len(one) for one in boxes]
    kept = [[place for place in (0, 3) if place < count] for count in counts]
    given = {
        "image": np.zeros((ROWS, HEIGHT, WIDTH, 3), np.uint8),
        "boxes": ragged_column(boxes, "float32", (4,)),
        "label": pa.array([[*range(row, row + count)] for row, count in enumerate(counts)], pa.list_(pa.int64())),
        "name": pa.array([[f"{row}-{place}" for place in range(count)] for row, count in enumerate(counts)]),
        "pair": ragged_column([random.integers(0, 9, (count, 2)) for count in counts], "int64", (2,)),
        "masks": pa.array(
            [[[[place] * WIDTH] * HEIGHT for place in range(count)] for count in counts],
            pa.list_(pa.list_(pa.list_(pa.uint8()))),
        ),
    }
    chains = {
        "image": (I.Resize((20, 20)),),
        "boxes": (I.Boxes(of="image", labels=("label", "name", "pair", "masks")), I.SanitizeBoundingBoxes()),
        "masks": (I.Mask(of="image"),),
    }
    made = applied(given, chains)
    for row in range(ROWS):
        assert made["label"][row].as_py() == [row + place for place in kept[row]]
        assert made["name"][row].as_py() == [f"{row}-{place}" for place in kept[row]]
        assert made["pair"][row].as_py() == [given["pair"][row].as_py()[place] for place in kept[row]]
        assert np.array(made["masks"][row].as_py()).reshape(-1, 20, 20)[:, 0, 0].tolist() == kept[row]
        assert len(made["boxes"][row]) == len(kept[row])
    dense = {
        "image": given["image"],
        "boxes": np.stack([np.stack(boxes[4])] * ROWS),
        "label": np.tile(np.arange(4), (ROWS, 1)),
    }
    chains = {"image": (I.Resize((20, 20)),), "boxes": (I.Boxes(of="image", labels="label"), I.SanitizeBoundingBoxes())}
    assert applied(dense, chains)["label"].to_pylist() == [[0, 3]] * ROWS


class TestIoUCrop:
    @pytest.mark.slow
    def test_it_is_drawn_as_torchvision_draws_it(self) -> None:
        """Overlap, sides and place of the part, by KS tests over many draws of both: 4,000 in a long run, since torchvision takes some milliseconds for each."""
        rows, boxes = tries(4_000, at_least=600), np.float32([[5, 6, 20, 30], [30, 2, 50, 39]])
        given = {
            "image": np.broadcast_to(np.zeros((1, 1, 1, 1), np.uint8), (rows, HEIGHT, WIDTH, 3)),
            "boxes": np.broadcast_to(boxes, (rows, 2, 4)),
        }
        (mine,) = drawn(given, {"image": (I.RandomIoUCrop(),), "boxes": (I.Boxes(of="image"),)})
        theirs = v2.RandomIoUCrop()
        torch.manual_seed(0)
        sample = [
            tv_tensors.Image(torch.zeros(1, HEIGHT, WIDTH, dtype=torch.uint8)),
            tv_tensors.BoundingBoxes(torch.as_tensor(boxes), format="XYXY", canvas_size=(HEIGHT, WIDTH)),
        ]
        wanted = [theirs.make_params(sample) for _ in range(rows)]
        cropped = ~np.isnan(mine["top"])
        assert cropped.mean() == pytest.approx(np.mean([bool(one) for one in wanted]), abs=2 / np.sqrt(rows))
        for name in ("top", "left", "height", "width"):
            numbers = [one[name] for one in wanted if one]
            assert stats.ks_2samp(mine[name][cropped], numbers).pvalue > 0.01
        ratio = mine["width"] / mine["height"]
        assert ratio[cropped].min() >= 0.5
        assert ratio[cropped].max() <= 2

    def test_an_image_without_boxes_stays(self) -> None:
        given = {**columns(), "boxes": ragged_column([np.empty((0, 4), np.float32)] * ROWS, "float32", (4,))}
        made = applied(given, {"image": (I.RandomIoUCrop(),), "boxes": (I.Boxes(of="image"),)})
        assert np.array_equal(np.moveaxis(np.asarray(made["image"]), 1, -1), given["image"])

    def test_its_overlap_is_at_least_what_was_drawn(self) -> None:
        given = columns()
        chains = {
            "image": (I.RandomIoUCrop(sampler_options=[0.5]), I.Resize((32, 32))),
            "boxes": (I.Boxes(of="image"),),
        }
        (mine, _) = drawn(given, chains)
        for row, boxes in enumerate(lists(given["boxes"])):
            if not np.isnan(mine["top"][row]):
                top, left, height, width = (mine[name][row] for name in ("top", "left", "height", "width"))
                part = torch.tensor([[left, top, left + width, top + height]])
                assert box_iou(torch.as_tensor(boxes), part).max() >= 0.5
