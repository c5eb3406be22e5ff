"""The end of chains of image ops on the device gives what the CPU's kernels give, bit for bit, whatever the plan is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.core.columns.spec import Field
from penstock.core.errors import PlanError
from penstock.transform.image.device import split, uniform
from support.images import encoded, picture
from support.seams import lowered_of

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from support.device_on_cpu import device_on_cpu  # noqa: E402  # needs PyTorch

image = ps.image
ROWS = 12
FLIP, UPSIDE_DOWN, NORMALIZE = image.RandomHorizontalFlip(), image.RandomVerticalFlip(), image.Normalize(image.IMAGENET)


def photographs() -> ps.Dataset:
    kinds = [encoded(picture(40 + i, 30 + i, i), "JPEG", quality=90, subsampling=i % 3) for i in range(ROWS)]
    return ps.from_arrays({"image": kinds, "label": np.arange(ROWS)})


def pixels(channels: int = 3) -> ps.Dataset:
    made = np.random.default_rng(0).integers(0, 256, (ROWS, 7, 9, channels), np.uint8)
    return ps.from_arrays({"image": made, "label": np.arange(ROWS)})


def ragged() -> ps.Dataset:
    tokens = pa.array([list(range(i + 1)) for i in range(ROWS)])
    made = np.random.default_rng(0).integers(0, 256, (ROWS, 7, 9, 3), np.uint8)
    return ps.from_arrays({"image": made, "tokens": tokens})


def both(dataset: ps.Dataset, patch: pytest.MonkeyPatch, **options: Any) -> tuple[ps.Loader[Any], ps.Loader[Any]]:
    """A loader that leaves everything to the CPU, and one that leaves what it can to the device."""
    here = ps.Loader(dataset, to="torch", cpus=2, **options)
    with patch.context() as within:
        device_on_cpu(within)
        return here, ps.Loader(dataset, to="torch", cpus=2, **options)


def assert_equal(here: Any, there: Any) -> None:
    for one, other in zip(here, there, strict=True):
        assert one.keys() == other.keys()
        for name, column in one.items():
            assert column.dtype == other[name].dtype
            assert torch.equal(column, other[name]), name


CHAINS: dict[str, list[Any]] = {
    "usual": [image.Decode(), image.RandomResizedCrop(16), FLIP, NORMALIZE],
    "both flips": [image.Decode(), image.RandomResizedCrop((12, 20)), FLIP, UPSIDE_DOWN, NORMALIZE],
    "fast": [image.Decode(fast=True), image.RandomResizedCrop(16), FLIP, NORMALIZE],
    "flips twice": [image.Decode(), image.Resize((9, 11)), FLIP, FLIP, UPSIDE_DOWN, FLIP, image.ToDtype("float32")],
    "a flip before a crop stays": [image.Decode(), FLIP, image.RandomResizedCrop(16), UPSIDE_DOWN, NORMALIZE],
    "grey after a flip": [image.Decode(), image.CenterCrop(24), FLIP, image.RandomGrayscale(0.5), NORMALIZE],
    "padding": [image.Decode(), image.CenterCrop(64), FLIP, NORMALIZE],
    "NHWC": [image.Decode(), image.Resize((9, 11)), FLIP, NORMALIZE, image.ToLayout("NHWC")],
    "half": [image.Decode(), image.Resize((9, 11)), FLIP, NORMALIZE, image.ToDtype("float16")],
    "bfloat16": [image.Decode(), image.Resize((9, 11)), FLIP, NORMALIZE, image.ToDtype("bfloat16")],
    "scaled": [image.Decode(), image.CenterCrop(20), image.ToDtype("float32", scale=True), image.ToLayout("NHWC")],
    "always": [image.Decode(), image.CenterCrop(20), image.RandomHorizontalFlip(1.0), NORMALIZE],
    "never": [image.Decode(), image.CenterCrop(20), image.RandomHorizontalFlip(0.0), NORMALIZE],
    "erased": [image.Decode(), image.CenterCrop(20), FLIP, NORMALIZE, image.RandomErasing(0.7)],
    "erased twice": [
        image.Decode(),
        image.CenterCrop((20, 30)),
        FLIP,
        image.ToDtype("float32"),
        image.RandomErasing(value=(1, 2.5, 300)),
        image.Normalize(0.3, 0.7),
        image.RandomErasing(0.8, value=0.1),
        image.ToDtype("float16"),
        image.ToLayout("NHWC"),
    ],
    "erased, bfloat16": [
        image.Decode(),
        image.CenterCrop(20),
        NORMALIZE,
        image.RandomErasing(1.0, scale=(0.5, 0.9)),
        image.ToDtype("bfloat16"),
    ],
    "bytes erased": [image.Decode(), image.CenterCrop(20), image.RandomErasing(value=7), FLIP, NORMALIZE],
    "inverted": [image.Decode(), image.CenterCrop(64), FLIP, image.RandomInvert(), image.RandomInvert(0.3), NORMALIZE],
}


@pytest.mark.parametrize("ops", CHAINS.values(), ids=CHAINS.keys())
def test_photographs(ops: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = both(photographs().shuffle(seed=3).transform(image=ops).batch(4), monkeypatch)
    with here, there:
        assert "image: " in lowered_of(there).on_device
        assert lowered_of(here).on_device == ""
        for _ in range(2):
            assert_equal(here, there)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_pixels_go_as_they_are(channels: int, layout: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ops = [FLIP, image.Normalize(0.5, 0.25), image.ToLayout(layout)]
    here, there = both(pixels(channels).shuffle(seed=1).transform(image=ops).batch(4), monkeypatch)
    with here, there:
        assert [stage.name for stage in lowered_of(there).stages if "transform" in stage.name] == []
        assert_equal(here, there)


PLANS: dict[str, Callable[[], ps.Dataset]] = {
    "select": lambda: photographs().transform(image=CHAINS["usual"]).select(["image"]).batch(4),
    "without the image": lambda: photographs().transform(image=CHAINS["usual"]).select(["label"]).batch(4),
    "padded": lambda: photographs().shuffle(seed=1).transform(image=CHAINS["usual"]).batch(5, pad=True),
    "repeated": lambda: photographs().repeat(3).shuffle(seed=1).transform(image=CHAINS["usual"]).batch(4),
    "mixed below": lambda: ps.mix([photographs(), photographs().skip(2)], weights=[0.5, 0.5], rows=24).transform(image=CHAINS["usual"]).batch(4),
    "two transforms": lambda: photographs().transform(image=[*CHAINS["usual"][:2], image.ToLayout("NHWC")]).shuffle(seed=2).transform(image=CHAINS["usual"][2:]).batch(4),
    "beside padded text": lambda: ragged().shuffle(seed=2).transform(image=[FLIP, NORMALIZE]).batch_padded(4),
    "chosen": lambda: photographs().filter(ps.col("label") > 3).shuffle(seed=2).transform(image=CHAINS["usual"]).batch(4),
    "cached below": lambda: photographs().transform(image=[image.Decode(), image.Resize((20, 20))]).cache().transform(image=[FLIP, NORMALIZE]).batch(4),
}  # fmt: skip


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
def test_plans(plan: Callable[[], ps.Dataset], monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = both(plan(), monkeypatch)
    with here, there:
        for _ in range(2):
            assert_equal(here, there)


STAY: dict[str, Callable[[], ps.Dataset]] = {
    "noise": lambda: photographs().transform(image=[*CHAINS["usual"], image.RandomErasing(value="random")]),
    "a drawn colour": lambda: photographs().transform(image=[*CHAINS["usual"], image.RandomErasing(value="color")]),
    "erased by choice": lambda: photographs().transform(image=[*CHAINS["usual"], image.RandomApply([image.RandomErasing(1.0)])]),
    "a function above": lambda: photographs().transform(image=CHAINS["usual"]).map(lambda batch: batch),
    "a cache above": lambda: photographs().transform(image=CHAINS["usual"][:1] + CHAINS["NHWC"][1:]).cache(freeze_random=True),
    "a mix above": lambda: ps.mix([photographs().transform(image=CHAINS["usual"])] * 2, weights=[0.5, 0.5], rows=24),
    "bytes": lambda: photographs().transform(image=CHAINS["usual"][:3]),
    "after a function": lambda: pixels().map(lambda batch: batch).transform(image=[NORMALIZE]),
}  # fmt: skip


@pytest.mark.parametrize("plan", STAY.values(), ids=STAY.keys())
def test_what_stays_on_the_cpu(plan: Callable[[], ps.Dataset], monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = both(plan().batch(4), monkeypatch)
    with here, there:
        assert lowered_of(there).on_device == ""
        assert_equal(here, there)


def test_ranks_states_and_single_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = photographs().shuffle(seed=3).transform(image=CHAINS["both flips"]).batch(4, lanes=2)
    for rank in range(2):
        here, there = both(dataset, monkeypatch, rank=rank, world_size=2)
        with here, there:
            assert_equal([here.batch_at(5, 1)], [there.batch_at(5, 1)])
            batches = iter(there)
            next(batches)
            here.load_state_dict(there.state_dict())
            assert_equal(here, batches)


def test_substitutes_are_mirrored_as_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = [b"no image" if i % 5 == 2 else encoded(picture(40, 30, i), "JPEG") for i in range(40)]
    dataset = ps.from_arrays({"image": broken}).shuffle(seed=3).transform(image=CHAINS["both flips"]).batch(8)
    here, there = both(dataset, monkeypatch, on_error="substitute")
    with here, there, pytest.warns(UserWarning, match="More bad samples"):  # noqa: PT031
        assert lowered_of(there).on_device
        for _ in range(2):
            assert_equal(here, there)


def test_damage_is_named_as_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = ps.from_arrays({"image": [b"no image"] * 4}).transform(image=CHAINS["usual"]).batch(4)
    for loader in both(dataset, monkeypatch):
        with loader, pytest.raises(ps.DataError, match="image"):
            next(iter(loader))


def test_the_device_gets_bytes() -> None:
    found = split(CHAINS["usual"], Field("bytes"))
    assert found is not None
    assert image.fuse(found.host, Field("bytes"), lambda: (9, 9)).field == Field("uint8", (3, 16, 16))
    assert [type(op).__name__ for op in found.moved] == ["RandomHorizontalFlip", "Normalize"]
    with pytest.raises(PlanError, match="the images have 1 channels"):
        split([NORMALIZE], Field("uint8", (4, 4, 1)))


@pytest.mark.parametrize("key", [0, 1, 2**64 - 1])
def test_draws_are_those_of_the_native_ops(key: int) -> None:
    samples = np.array([0, 1, -1, 2**40, *range(200)], dtype=np.int64)
    kernel = image.fuse([image.RandomHorizontalFlip(0.37)], Field("uint8", (1, 2, 1)), lambda: (1, 2), numbers=[5])
    out = np.empty((len(samples), 1, 1, 2), np.uint8)
    kernel(np.tile(np.array([[[0], [1]]], np.uint8), (len(samples), 1, 1, 1)), samples, key=key, out=out, threads=1)
    assert np.array_equal(out[:, 0, 0, 0] == 1, uniform(key, samples, 5) < 0.37)
