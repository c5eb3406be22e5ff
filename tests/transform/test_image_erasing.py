"""RandomErasing against torchvision v2: the same pixels for the same rectangle, the same distributions of what is drawn, wherever it stands in a chain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import penstock as ps
from penstock.core.columns.spec import Field
from penstock.core.errors import PlanError
from penstock.transform.image import ImageKernel, ToLayout, fuse
from penstock.transform.image.device import split
from support.images import encoded, picture, spans

I = ps.image  # noqa: E741  # as users write it
ROWS = 12
Pixels = npt.NDArray[Any]
Boxes = list[tuple[slice, slice] | None]


def never() -> tuple[int, int]:
    raise AssertionError("the size of the first picture was asked for")


def pixels(channels: int = 3, shape: tuple[int, int] = (37, 50), rows: int = ROWS, dtype: Any = np.uint8) -> Pixels:
    most = np.iinfo(dtype).max
    return np.random.default_rng(shape).integers(0, most + 1, (rows, *shape, channels)).astype(dtype)


def kernel_of(ops: list[Any], given: Pixels) -> ImageKernel:
    return fuse(ops, Field(given.dtype.name, given.shape[1:]), never)


def run(ops: list[Any], given: Pixels, key: int = 1, threads: int = 1) -> Pixels:
    kernel = kernel_of(ops, given)
    out = np.empty((len(given), *kernel.field.shape), kernel.field.numpy_dtype)
    kernel(given, np.arange(len(given)), key=key, out=out, threads=threads)
    return out


def boxes(ops: list[Any], given: Pixels, key: int = 1) -> Boxes:
    """The rectangle that the last op which draws erases of each row, None where it erases nothing."""
    kernel = kernel_of(ops, given)
    *_, drawn = kernel.drawn(given, np.arange(len(given)), key).values()
    if "top" not in drawn:
        return [None] * len(given)
    edges = np.stack([drawn[name] for name in ("top", "left", "height", "width")], axis=1)
    whole = [None if np.isnan(one).any() else one.astype(int).tolist() for one in edges]
    return [None if one is None else (slice(one[0], one[0] + one[2]), slice(one[1], one[1] + one[3])) for one in whole]


def floats(numbers: Pixels) -> Pixels:
    """Numbers of any dtype; NumPy has the bits of bfloat16 alone."""
    return (numbers.astype(np.uint32) << 16).view(np.float32) if numbers.dtype == np.uint16 else numbers


ENDS: dict[str, list[Any]] = {
    "Normalize": [I.Normalize(I.IMAGENET)],
    "half": [I.Normalize(I.IMAGENET), I.ToDtype("float16")],
    "bfloat16": [I.ToDtype("bfloat16", scale=True)],
    "no scale": [I.ToDtype("float32")],
}


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("value", [0, -1.5, (0.5, -0.25, 2.0)])
def test_floats_are_torchvisions_for_the_same_rectangle(end: list[Any], layout: Any, value: Any) -> None:
    torch = pytest.importorskip("torch")
    functional = pytest.importorskip("torchvision.transforms.v2").functional
    given, last = pixels(), ToLayout(layout)
    chain = [*end, I.RandomErasing(p=0.8, value=value), last]
    found = boxes(chain, given)
    assert None in found
    made, plain = (floats(run(ops, given)) for ops in (chain, [*end, last]))
    if layout == "NHWC":
        made, plain = made.transpose(0, 3, 1, 2), plain.transpose(0, 3, 1, 2)
    for image, before, box in zip(made, plain, found, strict=True):
        if box is not None:
            (top, bottom), (left, right) = ((side.start, side.stop) for side in box)
            v = torch.tensor(np.ravel(np.asarray(value, np.float32)))[:, None, None]
            erased = torch.from_numpy(before.astype(np.float32))
            before[:] = functional.erase(erased, top, left, bottom - top, right - left, v).numpy()
        assert np.array_equal(image, before)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scale", "ratio"), [((0.02, 0.33), (0.3, 3.3)), ((0.5, 1.0), (0.2, 0.5)), ((0.1, 0.1), (1, 1))]
)
def test_rectangles_are_drawn_as_torchvision_draws_them(scale: Any, ratio: Any) -> None:
    torch = pytest.importorskip("torch")
    v2 = pytest.importorskip("torchvision.transforms.v2")
    stats = pytest.importorskip("scipy.stats")
    rows, shape = 10_000, (60, 90)
    op = I.RandomErasing(p=1, scale=scale, ratio=ratio)
    column = np.broadcast_to(np.zeros((1, 1, 1, 1), np.uint8), (rows, *shape, 3))
    drawn = kernel_of([op], column).drawn(column, np.arange(rows), 3)[0]
    assert drawn["applied"].all()
    torch.manual_seed(0)
    of, image = v2.RandomErasing(p=1, scale=scale, ratio=ratio), torch.zeros(3, *shape)
    theirs = [of.make_params([image]) for _ in range(rows)]
    theirs = [one for one in theirs if one["v"] is not None]
    ours = {name: drawn[name][~np.isnan(drawn[name])] for name in ("top", "left", "height", "width")}
    assert abs(len(ours["top"]) - len(theirs)) < 250
    for name, short in (("top", "i"), ("left", "j"), ("height", "h"), ("width", "w")):
        wanted = [one[short] for one in theirs]
        assert stats.ks_2samp(ours[name], wanted).pvalue > 0.001, name


def test_the_probability_is_kept() -> None:
    given = np.broadcast_to(np.zeros((1, 1, 1, 1), np.uint8), (10_000, 9, 9, 3))
    applied = kernel_of([I.RandomErasing(0.25)], given).drawn(given, np.arange(10_000), 3)[0]["applied"]
    assert abs(applied.mean() - 0.25) < 0.02


def test_noise_is_normal_and_the_same_in_both_layouts() -> None:
    stats = pytest.importorskip("scipy.stats")
    given, normal = pixels(shape=(64, 80)), I.Normalize(0.5, 0.5)
    chain = [normal, I.RandomErasing(p=1, scale=(0.3, 0.33), value="random")]
    made, plain = run(chain, given), run([normal], given)
    assert np.array_equal(made, run([*chain, ToLayout("NHWC")], given).transpose(0, 3, 1, 2))
    assert np.array_equal(made, run(chain, given, threads=4))
    every = []
    for image, before, box in zip(made, plain, boxes(chain, given), strict=True):
        assert box is not None
        every.append(image[:, *box].reshape(3, -1).copy())
        image[:, *box] = before[:, *box]
    assert np.array_equal(made, plain)
    numbers = np.concatenate(every, axis=1)
    assert stats.kstest(numbers.ravel()[:20_000], "norm").pvalue > 0.001
    assert np.abs(np.corrcoef(numbers) - np.eye(3)).max() < 0.03
    assert np.abs(np.corrcoef(numbers[0, :-1], numbers[0, 1:])[0, 1]) < 0.03
    assert not np.array_equal(made, run(chain, given, key=2))


def test_a_colour_is_one_normal_number_a_channel() -> None:
    stats = pytest.importorskip("scipy.stats")
    given = pixels(shape=(8, 8), rows=2_000)
    chain = [I.Normalize(0.5, 0.5), I.RandomErasing(p=1, scale=(0.2, 0.3), value="color"), ToLayout("NHWC")]
    colours = []
    for image, box in zip(run(chain, given), boxes(chain, given), strict=True):
        assert box is not None
        (colour,) = np.unique(image[box].reshape(-1, 3), axis=0)
        colours.append(colour)
    numbers = np.stack(colours)
    assert stats.kstest(numbers.ravel(), "norm").pvalue > 0.001
    assert np.abs(np.corrcoef(numbers.T) - np.eye(3)).max() < 0.1


def test_what_follows_is_done_to_the_value_too() -> None:
    given = pixels()
    chain = [
        I.ToDtype("float32", scale=True),
        I.RandomErasing(p=1, value=(0.1, 0.5, 2.0)),
        I.Normalize(I.IMAGENET),
        I.ToDtype("float16"),
    ]
    for image, box in zip(run(chain, given), boxes(chain, given), strict=True):
        assert box is not None
        wanted = (np.array([0.1, 0.5, 2.0]) - I.IMAGENET.mean) / I.IMAGENET.std
        assert np.allclose(image[:, *box], wanted[:, None, None], rtol=1e-3)
    twice = [I.Normalize(I.IMAGENET), I.RandomErasing(p=1, value=0), I.Normalize(0.5, 2.0)]
    for image, box in zip(run(twice, given), boxes(twice, given), strict=True):
        assert box is not None
        assert np.allclose(image[:, *box], -0.25, atol=1e-6)


@pytest.mark.parametrize(
    ("channels", "dtype", "value", "becomes"),
    [
        (3, np.uint8, 7.9, 7),
        (3, np.uint8, (300, -3, 128), (255, 0, 128)),
        (1, np.uint8, 9, 9),
        (2, np.uint8, (9, 200), (9, 200)),
        (4, np.uint8, (1, 2, 3, 4), (1, 2, 3, 4)),
        (4, np.uint8, 5, 5),
        (1, np.uint16, 1_000, 1_000),
        (1, np.uint16, 70_000, 65_535),
    ],
)
def test_bytes_are_erased_before_normalize(channels: int, dtype: Any, value: Any, becomes: Any) -> None:
    given = pixels(channels, dtype=dtype)
    chain = [I.RandomErasing(p=0.8, value=value), ToLayout("NHWC")]
    made, found = run(chain, given), boxes(chain, given)
    for image, plain, box in zip(made, given, found, strict=True):
        wanted = plain.copy()
        if box is not None:
            wanted[box] = becomes
        assert np.array_equal(image, wanted)
    assert np.array_equal(
        run([*chain, I.Normalize(0.5, 0.5)], given), run([I.Normalize(0.5, 0.5), ToLayout("NHWC")], made)
    )


def test_ops_around_it_and_pixels_that_move_before_it() -> None:
    given, erasing = pixels(), I.RandomErasing(p=1, value=9)
    before = [I.RandomHorizontalFlip(), I.CenterCrop((20, 30))]
    chain = [
        *before,
        I.Normalize(0.5, 0.5),
        I.RandomApply([erasing, I.RandomErasing(p=1, value="random")], p=0.5),
        ToLayout("NHWC"),
    ]
    made, plain = run(chain, given), run([*before, I.Normalize(0.5, 0.5), ToLayout("NHWC")], given)
    kernel = kernel_of(chain, given)
    assert kernel.field.shape == (20, 30, 3)
    applied = kernel.drawn(given, np.arange(ROWS), 1)[3]["applied"] == 1
    assert 0 < applied.sum() < ROWS
    assert [not np.array_equal(*both) for both in zip(made, plain, strict=True)] == applied.tolist()
    bytes_before = [erasing, I.CenterCrop((20, 30)), I.RandomInvert(p=1), ToLayout("NHWC")]
    for image, whole in zip(run(bytes_before, given), run([erasing, ToLayout("NHWC")], given), strict=True):
        assert np.array_equal(image, 255 - whole[8:28, 10:40])


def test_large_batches_and_files_are_the_same() -> None:
    """A batch that is written past the caches, and images that are decoded."""
    given = pixels(shape=(224, 224), rows=36)
    chain = [I.Normalize(I.IMAGENET), I.RandomErasing(p=1, value="random")]
    made = run(chain, given, threads=2)
    assert made.nbytes > 1 << 24
    kernel, few = kernel_of(chain, given[:1]), np.empty((1, 3, 224, 224), np.float32)
    for row in (0, 17, 35):
        kernel(given[row : row + 1], np.array([row]), key=1, out=few, threads=1)
        assert np.array_equal(few[0], made[row])
    pictures = [picture(40, 30, row) for row in range(4)]
    files = [encoded(one, "PNG") for one in pictures]
    of_files = fuse([I.Decode(), *chain], Field("bytes"), lambda: (30, 40))
    out = np.empty((4, 3, 30, 40), np.float32)
    of_files(spans(*files), np.arange(4), key=1, out=out, threads=1)
    # The op stands one place further on, which is its number.
    assert np.array_equal(out, run([I.ToLayout("NCHW"), *chain], np.stack([np.asarray(one) for one in pictures])))


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (1, 65_535), (2, 2), (2, 65_535)])
def test_images_that_are_too_small_stay(shape: tuple[int, int]) -> None:
    given = pixels(shape=shape, rows=3)
    chain = [I.Normalize(0.5, 0.5), I.RandomErasing(p=1, value=3)]
    made, plain = run(chain, given), run(chain[:1], given)
    for image, before, box in zip(made, plain, boxes(chain, given), strict=True):
        assert box is None or 1 not in shape or before[:, *box].size == 0
        if box is not None:
            before[:, *box] = 3
        assert np.array_equal(image, before)


def test_a_mask_that_draws_together_is_erased_where_its_image_is() -> None:
    given = {"image": pixels(rows=8), "mask": pixels(1, rows=8)}
    plan = ps.from_arrays(given).transform(
        image=[I.Normalize(0.5, 0.5), I.RandomErasing(value=9)], mask=[I.RandomErasing(value=255)], draws="together"
    )
    with ps.Loader(plan.batch(8)) as loader:
        (batch,) = list(loader)
    erased = (batch["image"] == 9).all(axis=1)
    assert erased.any(axis=(1, 2)).sum() in range(1, 8)
    assert (batch["mask"][:, 0][erased] == 255).all()
    assert np.array_equal(batch["mask"][:, 0][~erased], given["mask"][..., 0][~erased])


def test_a_device_erases_with_numbers_and_leaves_the_rest_to_the_host() -> None:
    decode = [I.Decode(), I.CenterCrop(8)]
    assert split([*decode, I.Normalize(0.5, 0.5), I.RandomErasing(value="random")], Field("bytes")) is None
    assert split([*decode, I.Normalize(0.5, 0.5), I.RandomErasing(value="color")], Field("bytes")) is None
    erased = split([*decode, I.Normalize(0.5, 0.5), I.RandomErasing(), I.ToDtype("float16")], Field("bytes"))
    assert erased is not None
    assert erased.words == "Normalize, RandomErasing, ToDtype"
    found = split([*decode, I.RandomErasing(), I.Normalize(0.5, 0.5)], Field("bytes"))
    assert found is not None
    assert found.moved == (I.Normalize(0.5, 0.5),)


WRONG: dict[str, Callable[[], Any]] = {
    "p": lambda: I.RandomErasing(1.5),
    "scale": lambda: I.RandomErasing(scale=(0.2, 1.2)),
    "scale, turned": lambda: I.RandomErasing(scale=(0.3, 0.2)),
    "scale, a number": lambda: I.RandomErasing(scale=0.3),  # type: ignore[arg-type]
    "ratio": lambda: I.RandomErasing(ratio=(0, 2)),
    "ratio, NaN": lambda: I.RandomErasing(ratio=(float("nan"), 2)),
    "value": lambda: I.RandomErasing(value="rand"),  # type: ignore[arg-type]
    "no values": lambda: I.RandomErasing(value=()),
    "NaN": lambda: I.RandomErasing(value=float("nan")),
    "None": lambda: I.RandomErasing(value=None),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("make", WRONG.values(), ids=WRONG)
def test_arguments_that_make_no_sense(make: Callable[[], Any]) -> None:
    with pytest.raises(PlanError, match="; give"):
        make()


@pytest.mark.parametrize(
    ("chain", "message"),
    [
        ([I.RandomErasing(value="random"), I.Normalize(0.5, 0.5)], "the images are bytes here; put it behind Normalize"),
        ([I.RandomErasing(value="color")], "the images are bytes here"),
        ([I.Normalize(0.5, 0.5), I.RandomErasing(value=(1, 2))], "the images have 3 channels; give 3 values, or 1"),
        ([I.ToDtype("float32", scale=True), I.RandomErasing(), I.ToDtype("uint8", scale=True)], "follows RandomErasing, which has put floats there"),
        ([I.ToDtype("float32", scale=True), I.RandomApply([I.RandomErasing()]), I.ToDtype("uint8", scale=True)], "follows RandomErasing"),
        ([I.Normalize(0.5, 0.5), I.RandomErasing(), I.CenterCrop(3)], "follows Normalize or ToDtype; put it before them"),
    ],
)  # fmt: skip
def test_chains_that_cannot_be(chain: list[Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        kernel_of(chain, pixels())


def test_indices_are_erased_by_a_class_alone() -> None:
    files = [encoded(picture(12, 9, row).quantize(4), "PNG") for row in range(6)]

    def run_files(ops: list[Any]) -> Pixels:
        kernel, out = fuse([I.Decode("P"), *ops], Field("bytes"), lambda: (9, 12)), np.empty((6, 1, 9, 12), np.uint8)
        kernel(spans(*files), np.arange(6), key=1, out=out, threads=1)
        return out

    made, plain = run_files([I.RandomErasing(p=1, value=255)]), run_files([])
    assert plain.max() < 4
    assert (made == 255).any(axis=(1, 2, 3)).all()
    assert np.array_equal(np.where(made == 255, plain, made), plain)
    with pytest.raises(PlanError, match=r'indices of a palette \(mode "P"\)'):
        fuse([I.Decode("P"), I.ToDtype("float32"), I.RandomErasing(value="random")], Field("bytes"), lambda: (9, 9))
