"""What lies along with images, in whole plans: the same wherever it is made, whole where columns are chosen, and refused where it cannot be."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.core.columns.ragged import ragged_column
from penstock.core.errors import DataError, PlanError
from support.along import lists
from support.images import encoded, picture

I = ps.image  # noqa: E741
ROWS, HEIGHT, WIDTH = 24, 30, 44


def table(**others: Any) -> pa.Table:
    """Encoded images, with up to three boxes, points and a mask each."""
    random = np.random.default_rng(2)
    counts = [row % 4 for row in range(ROWS)]
    first = [random.uniform(0, 15, (count, 2)) for count in counts]
    boxes = [np.concatenate([one, one + random.uniform(3, 15, one.shape)], axis=1).astype("float32") for one in first]
    columns = {
        "image": pa.array([encoded(picture(WIDTH, HEIGHT, row), "JPEG") for row in range(ROWS)]),
        "boxes": ragged_column(boxes, "float32", (4,)),
        "label": pa.array([[10 * row + place for place in range(count)] for row, count in enumerate(counts)]),
        "points": ragged_column([random.uniform(0, 30, (2, 2)) for _ in range(ROWS)], "float64", (2,)),
        "mask": pa.array([encoded(picture(WIDTH, HEIGHT, row, "P"), "PNG") for row in range(ROWS)]),
    }
    return pa.table(columns | others)


def source(**others: Any) -> Any:
    columns = table(**others)
    return ps.from_arrays({name: columns[name].combine_chunks() for name in columns.column_names}, nulls="arrow")


IMAGE = [I.Decode(mode="RGB"), I.RandomIoUCrop(), I.RandomHorizontalFlip(), I.RandomAffine(20), I.Resize((32, 32))]
BOXES = [I.Boxes(of="image", labels=("label",)), I.SanitizeBoundingBoxes()]
ALONG = {"boxes": BOXES, "mask": I.Mask(of="image", mode="P", fill=255), "points": I.KeyPoints(of="image")}


def detection(data: Any = None) -> Any:
    return (source() if data is None else data).transform(image=IMAGE, **ALONG)


def taken(loader: Any) -> dict[str, list[Any]]:
    """All rows of an epoch, column by column."""
    found: dict[str, list[Any]] = {}
    for batch in loader:
        for name, column in batch.items():
            if isinstance(column, (np.ndarray, pa.Array)):
                found.setdefault(name, []).extend(lists(column))
    return found


def are_same(one: dict[str, list[Any]], other: dict[str, list[Any]]) -> bool:
    assert one.keys() == other.keys()
    return all(np.array_equal(a, b) for name in one for a, b in zip(one[name], other[name], strict=True))


@pytest.fixture(scope="module")
def wanted() -> dict[str, list[Any]]:
    return taken(ps.Loader(detection().shuffle(seed=3).batch(6), cpus=1))


@pytest.mark.slow
@pytest.mark.parametrize("how", [{"cpus": 4}, {"isolation": "process"}])
def test_threads_and_processes_change_nothing(wanted: dict[str, list[Any]], how: dict[str, Any]) -> None:
    assert are_same(wanted, taken(ps.Loader(detection().shuffle(seed=3).batch(6), **how)))


def test_ranks_change_nothing(wanted: dict[str, list[Any]]) -> None:
    """Rows are what they are on one rank, wherever they are made."""
    ranks = [[*ps.Loader(detection().shuffle(seed=3).batch(6), rank=rank, world_size=2)] for rank in range(2)]
    steps = [taken([step]) for pair in zip(*ranks, strict=True) for step in pair]
    together = {name: [row for step in steps for row in step[name]] for name in wanted}
    assert sorted(str(row) for row in together["boxes"]) == sorted(str(row) for row in wanted["boxes"])
    assert sorted(row.sum() for row in together["mask"]) == sorted(row.sum() for row in wanted["mask"])


def test_a_saved_state_goes_on_with_the_same(wanted: dict[str, list[Any]]) -> None:
    loader = ps.Loader(detection().shuffle(seed=3).batch(6))
    steps = iter(loader)
    next(steps), next(steps)
    state = loader.state_dict()
    again = ps.Loader(detection().shuffle(seed=3).batch(6))
    again.load_state_dict(state)
    assert are_same({name: rows[12:] for name, rows in wanted.items()}, taken(again))


def test_a_cache_before_it_changes_nothing(wanted: dict[str, list[Any]]) -> None:
    assert are_same(wanted, taken(ps.Loader(detection(source().cache()).shuffle(seed=3).batch(6))))


def test_rows_in_a_cache_go_on() -> None:
    """Boxes and masks that a transform made are those of the images that it made, with a cache between or not."""

    def made(between: Callable[[Any], Any]) -> dict[str, list[Any]]:
        chains: dict[str, Any] = {
            "boxes": I.Boxes(of="image"),
            "mask": I.Mask(of="image"),
            "points": I.KeyPoints(of="image"),
        }
        first = (
            source()
            .select("image", "boxes", "mask", "points")
            .transform(image=[I.Decode(mode="RGB"), I.Resize((40, 40))], **chains)
        )
        return taken(
            ps.Loader(between(first).transform(image=[I.RandomIoUCrop(), I.Resize((32, 32))], **chains).batch(6))
        )

    assert are_same(made(lambda data: data), made(lambda data: data.cache()))


def test_a_later_transform_of_the_image_moves_no_boxes() -> None:
    """Boxes go with the ops of their own transform: these are not joined with those of another one."""
    chains = {"boxes": I.Boxes(of="image")}
    still = [I.Decode(mode="RGB"), I.Resize((30, 44))]
    first = source().select("image", "boxes").transform(image=still, **chains)
    with pytest.warns(
        UserWarning, match="RandomHorizontalFlip moves the pixels of 'image', and 'boxes', which went along"
    ):
        data = first.transform(image=I.RandomHorizontalFlip(1))
    assert str(taken(ps.Loader(data.batch(6)))["boxes"]) == str(lists(table()["boxes"].combine_chunks()))
    before = source().select("image", "boxes").transform(image=[*still, I.RandomHorizontalFlip(1)])
    after = before.transform(image=I.CenterCrop((30, 44)), **chains)
    assert str(taken(ps.Loader(after.batch(6)))["boxes"]) == str(lists(table()["boxes"].combine_chunks()))


@pytest.mark.parametrize("columns", [("label",), ("mask",), ("image",), ("points",), ("boxes", "points")])
def test_columns_that_are_left_out_change_no_other(wanted: dict[str, list[Any]], columns: tuple[str, ...]) -> None:
    """A mask alone is cut by its row's boxes, too, and labels alone lose what the boxes lose."""
    chosen = taken(ps.Loader(detection().select(*columns).shuffle(seed=3).batch(6)))
    assert are_same({name: wanted[name] for name in columns}, chosen)


def test_views_and_chains_that_draw_together_change_nothing(wanted: dict[str, list[Any]]) -> None:
    """Boxes go with the first view, beside another one; and with an image that a chain of its own is drawn together with."""
    view = I.From("image", [I.RandomResizedCrop(16), I.RandomHorizontalFlip()])
    seen = taken(ps.Loader(source().transform(image=IMAGE, view=view, **ALONG).shuffle(seed=3).batch(6)))
    assert seen.pop("view")[0].shape == (3, 16, 16)
    assert are_same(wanted, seen)
    ops = [I.RandomResizedCrop(32, interpolation="nearest"), I.RandomHorizontalFlip()]
    both = source().transform(
        image=[I.Decode(mode="L"), *ops], mask=[I.Decode(mode="L"), *ops], boxes=I.Boxes(of="image"), draws="together"
    )
    alone = source().transform(
        image=[I.Decode(mode="L"), *ops], boxes=I.Boxes(of="image"), mask=I.Mask(of="image", mode="L")
    )
    assert are_same(*(taken(ps.Loader(data.batch(6))) for data in (both, alone)))


def test_boxes_batch_as_rows_or_padded() -> None:
    padded = next(iter(ps.Loader(detection().batch_padded(6))))
    assert padded["boxes"].shape[2:] == (4,)
    assert padded["boxes"].shape[:2] == padded["label"].shape
    assert padded["boxes_lengths"].tolist() == padded["label_lengths"].tolist()


def test_draws_are_told_with_boxes_beside_the_image() -> None:
    loader = ps.Loader(detection().batch(6))
    crop = loader.draws(0, 1)["image"]["1 RandomIoUCrop"]
    boxes = [len(row) for row in table()["boxes"][6:12]]
    assert [np.isnan(overlap) for overlap in crop["overlap"]] == [count == 0 for count in boxes]


@pytest.mark.slow
def test_bad_rows_are_left_out_whole() -> None:
    """A bad image, box, mask, point and label: others take their places with on_error="substitute", and all good rows are what they were."""
    image, mask = table()["image"].to_pylist(), table()["mask"].to_pylist()
    boxes, points, label = (table()[name].to_pylist() for name in ("boxes", "points", "label"))
    image[1], mask[2], mask[3] = b"no image", b"no mask", encoded(picture(7, 7, 0, "P"), "PNG")
    boxes[5], boxes[6], label[7] = [[0, 0, float("nan"), 4]], [[9, 9, 3, 3], [0, 0, 1, 1]], [1]
    boxes[9], boxes[10], points[11] = [[500, 0, 510, 4]], None, None
    bad = {1, 2, 3, 5, 6, 7, 9, 10, 11}
    data = source(
        image=pa.array(image),
        mask=pa.array(mask),
        boxes=pa.array(boxes, pa.list_(pa.list_(pa.float32(), 4))),
        points=pa.array(points, pa.list_(pa.list_(pa.float64(), 2))),
        label=pa.array(label, pa.list_(pa.int64())),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        left = taken(ps.Loader(detection(data).batch(6), on_error="substitute"))
        skipping = taken(ps.Loader(detection(data).batch(6), on_error="skip"))
    whole = taken(ps.Loader(detection().batch(6)))
    for row in range(ROWS):
        same = {name: np.array_equal(whole[name][row], left[name][row]) for name in whole}
        assert same["image"] == (row not in bad)
        assert row in bad or all(same.values())
    labels = {int(label) // 10 for row in skipping["label"] for label in row}
    assert labels
    assert not labels & bad


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "number": ({"boxes": [[0, 0, float("nan"), 4]]}, "no number"),
    "turned": ({"boxes": [[9, 9, 3, 3]]}, "ends before it begins"),
    "outside": ({"boxes": [[500, 0, 510, 4]]}, "lies outside of its image of 44 × 30 pixels"),
    "three": ({"boxes": [[1, 2, 3]]}, "3 numbers where 4 are needed"),
    "null": ({"boxes": None}, "a null"),
    "null inside": ({"boxes": [[1, None, 3, 4]]}, "a null"),
    "label": ({"label": [1, 2, 3, 4, 5]}, "boxes in column 'boxes', and 5 values of the label 'label'"),
    "point": ({"points": [[1, 2, 3]]}, "3 numbers where 2 are needed"),
    "mask size": ({"mask": encoded(picture(7, 5, 0, "P"), "PNG")}, "a mask of 7 × 5 pixels .* whose image has 44 × 30"),
    "mask": ({"mask": b"nothing"}, "mask|image"),
}
KINDS = {
    "boxes": pa.list_(pa.list_(pa.float32())),
    "label": pa.list_(pa.int64()),
    "points": pa.list_(pa.list_(pa.float64())),
    "mask": pa.binary(),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_data_is_named_with_its_row(name: str) -> None:
    others, message = BAD[name]
    changed = {}
    for column, value in others.items():
        rows = table()[column].to_pylist()
        rows[13] = value
        changed[column] = pa.array(rows, KINDS[column])
    with pytest.raises(DataError, match=message) as error:
        taken(ps.Loader(detection(source(**changed)).batch(6)))
    assert "13" in str(error.value)


DENSE = {
    "image": np.zeros((4, 20, 20, 3), np.uint8),
    "boxes": np.zeros((4, 2, 4), np.float32),
    "points": np.zeros((4, 2, 2), np.float32),
    "mask": np.zeros((4, 20, 20), np.uint8),
    "label": np.zeros((4, 2), np.int64),
    "class": np.zeros(4, np.int64),
    "words": np.zeros((4, 2, 4), np.uint8),
}
CROP = [I.RandomCrop(10)]

REFUSED: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    "no image": (lambda: {"boxes": I.Boxes(of="image")}, "no chain of image ops"),
    "no such image": (lambda: {"image": CROP, "boxes": I.Boxes(of="photo")}, "no chain of image ops"),
    "a view": (lambda: {"image": CROP, "view": I.From("image", CROP), "boxes": I.Boxes(of="view")}, "another view of .image.: what lies along"),
    "of itself": (lambda: {"boxes": I.Boxes(of="boxes")}, "no chain of image ops"),
    "second": (lambda: {"image": [*CROP, I.Boxes(of="image")]}, "put it first"),
    "format": (lambda: {"image": CROP, "boxes": I.Boxes(of="image", format="LTRB")}, "a format: XYXY"),
    "format behind": (lambda: {"boxes": I.ConvertBoundingBoxFormat("xyz")}, "a format: XYXY"),
    "too small": (lambda: {"boxes": I.SanitizeBoundingBoxes(min_size=0)}, "from 1 on"),
    "image op on boxes": (lambda: {"image": CROP, "boxes": [I.Boxes(of="image"), I.RandomHorizontalFlip()]}, "not an op on boxes"),
    "box op on images": (lambda: {"image": [*CROP, I.ClampBoundingBoxes()]}, "which holds no boxes"),
    "op behind points": (lambda: {"image": CROP, "points": [I.KeyPoints(of="image"), I.ClampBoundingBoxes()]}, "holds no boxes|nothing follows"),
    "flip behind mask": (lambda: {"image": CROP, "mask": [I.Mask(of="image"), I.RandomHorizontalFlip()]}, "does what the image's chain does"),
    "boxes of other numbers": (lambda: {"image": CROP, "words": I.Boxes(of="image")}, "float32, float64 or signed"),
    "boxes of other axes": (lambda: {"image": CROP, "points": I.Boxes(of="image")}, "lists of 4 numbers"),
    "points of other axes": (lambda: {"image": CROP, "boxes": I.KeyPoints(of="image")}, "lists of 2 numbers"),
    "mask of other numbers": (lambda: {"image": CROP, "boxes": I.Mask(of="image")}, "uint8, bool or uint16"),
    "mask's fill": (lambda: {"image": CROP, "mask": I.Mask(of="image", fill=300)}, "fill from 0 to 255"),
    "mask's mode": (lambda: {"image": CROP, "mask": I.Mask(of="image", mode="unchanged")}, "a mode"),
    "label of a row": (lambda: {"image": CROP, "boxes": I.Boxes(of="image", labels="class")}, "one value a row"),
    "label that is not there": (lambda: {"image": CROP, "boxes": I.Boxes(of="image", labels="lable")}, "no column 'lable'"),
    "label twice": (
        lambda: {"image": CROP, "boxes": I.Boxes(of="image", labels="label"), "points": I.Boxes(of="image", labels="label")},
        "that other ops of this transform make",
    ),
    "crop without boxes": (lambda: {"image": [I.RandomIoUCrop()]}, "it has none"),
    "crop without boxes, inside": (lambda: {"image": [I.RandomApply([I.RandomIoUCrop()])]}, "it has none"),
    "crop with two": (
        lambda: {"image": [I.RandomIoUCrop(), *CROP], "boxes": I.Boxes(of="image"), "other": I.Boxes(of="image")},
        "it has 'boxes', 'other'",
    ),
    "crop's scale": (lambda: {"image": I.RandomIoUCrop(min_scale=0)}, "min_scale above 0"),
    "crop's ratio": (lambda: {"image": I.RandomIoUCrop(max_aspect_ratio=0.1)}, "max_aspect_ratio not below"),
    "crop's options": (lambda: {"image": I.RandomIoUCrop(sampler_options=[])}, "at least one number"),
    "crop's trials": (lambda: {"image": I.RandomIoUCrop(trials=0)}, "trials from 1 on"),
    "mixed places": (lambda: {"image": [I.AugMix()], "boxes": I.Boxes(of="image")}, "mixes pixels that went to several places"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_a_plan_error(name: str) -> None:
    """Before anything runs."""
    make, message = REFUSED[name]
    with pytest.raises(PlanError, match=message):
        ps.Loader(ps.from_arrays(DENSE).transform(**make()).batch(2))
