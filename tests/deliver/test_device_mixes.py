"""MixUp and CutMix on the device give what they give on the CPU, bit for bit: the host draws and makes the labels, bytes cross the bus."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps
from deliver.test_device_ops import CHAINS, FLIP, NORMALIZE, UPSIDE_DOWN, assert_equal, both, photographs, pixels
from support.fake_cuda import FakeCuda
from support.images import encoded, picture
from support.seams import lowered_of

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

image = ps.image
CLASSES = 12
MIX_UP, BY_ROW = image.MixUp(0.4, num_classes=CLASSES), image.MixUp(0.4, num_classes=CLASSES, per_row=True)
CUT, CUT_BY_ROW = image.CutMix(num_classes=CLASSES), image.CutMix(num_classes=CLASSES, per_row=True)
EITHER = image.RandomChoice([BY_ROW, CUT_BY_ROW, CUT])


def two(**columns: list[Any]) -> ps.Dataset:
    """Two columns of pixels."""
    random = np.random.default_rng(0)
    made = {name: random.integers(0, 256, (CLASSES, 8, 9, 3), np.uint8) for name in ("image", "other")}
    return (
        ps.from_arrays({**made, "label": np.arange(CLASSES), "label_2": np.arange(CLASSES) % 3})
        .shuffle(seed=1)
        .transform(**columns, draws="apart")
    )


USUAL, LAST = CHAINS["usual"], CHAINS["NHWC"]
PLANS: dict[str, tuple[str, Callable[[], ps.Dataset]]] = {
    "MixUp": ("Normalize, MixUp", lambda: photographs().shuffle(seed=3).transform(image=USUAL).batch(4).transform(MIX_UP)),
    "by row": ("Normalize, MixUp", lambda: photographs().shuffle(seed=3).transform(image=USUAL).batch(6).transform(BY_ROW)),
    "CutMix": ("Normalize, CutMix", lambda: photographs().shuffle(seed=3).transform(image=USUAL).batch(4).transform(CUT)),
    "CutMix by row": ("Normalize, CutMix", lambda: photographs().shuffle(seed=3).transform(image=USUAL).batch(4).transform(CUT_BY_ROW)),
    "one of them": ("Normalize, RandomChoice", lambda: photographs().repeat(4).shuffle(seed=3).transform(image=USUAL).batch(4).transform(EITHER)),
    "MixUp, NHWC": ("ToLayout, MixUp", lambda: photographs().transform(image=LAST).batch(4).transform(MIX_UP)),
    "CutMix, NHWC": ("ToLayout, CutMix", lambda: photographs().repeat(2).transform(image=LAST).batch(4).transform(CUT_BY_ROW)),
    "erased": ("RandomErasing, RandomChoice", lambda: photographs().repeat(3).transform(image=CHAINS["erased"]).batch(4).transform(EITHER)),
    "pixels": ("image: Normalize, CutMix", lambda: pixels().shuffle(seed=1).transform(image=[NORMALIZE]).batch(4).transform(CUT)),
    "grey": ("ToDtype, MixUp", lambda: pixels(1).transform(image=[FLIP, image.ToDtype("float32")]).batch(4).transform(MIX_UP)),
    "a short step": ("MixUp", lambda: photographs().transform(image=USUAL).batch(5).transform(MIX_UP)),
    "nothing but a short step": ("MixUp", lambda: photographs().transform(image=USUAL).batch(24).transform(MIX_UP)),
    "padded": ("CutMix", lambda: photographs().shuffle(seed=1).transform(image=USUAL).batch(8, pad=True).transform(CUT_BY_ROW)),
    "dropped": ("MixUp", lambda: photographs().transform(image=USUAL).batch(8, drop_last=True).transform(BY_ROW)),
    "selected": ("MixUp", lambda: photographs().transform(image=USUAL).batch(4).transform(MIX_UP).select(["label", "image"])),
    "without the image": ("", lambda: photographs().transform(image=USUAL).batch(4).transform(MIX_UP).select(["label"])),
    "two columns": ("image: Normalize, RandomChoice; other: RandomVerticalFlip, Normalize, RandomChoice", lambda: two(image=[NORMALIZE], other=[UPSIDE_DOWN, NORMALIZE]).repeat(2).batch(4).transform(EITHER)),
    "two layouts": ("image: Normalize, ToLayout, CutMix; other: Normalize, CutMix", lambda: two(image=[NORMALIZE, image.ToLayout("NHWC")], other=[NORMALIZE]).batch(4).transform(CUT)),
    "bytes are mixed on the host": ("image: Normalize, CutMix", lambda: two(image=[NORMALIZE], other=[FLIP]).batch(4).transform(CUT)),
    "half is not mixed": ("image: Normalize, MixUp; other: Normalize, ToDtype", lambda: two(image=[NORMALIZE], other=[NORMALIZE, image.ToDtype("float16")]).batch(4).transform(MIX_UP)),
    "named": ("image: Normalize; other: Normalize, MixUp", lambda: two(image=[NORMALIZE], other=[NORMALIZE]).batch(4).transform(image.MixUp(num_classes=CLASSES, columns="other"))),
}  # fmt: skip


@pytest.mark.parametrize(("words", "plan"), PLANS.values(), ids=PLANS.keys())
def test_plans(words: str, plan: Callable[[], ps.Dataset], monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = both(plan(), monkeypatch)
    with here, there:
        assert words in lowered_of(there).on_device
        assert lowered_of(there).on_device in there.explain()
        assert lowered_of(here).on_device == ""
        for epoch in range(2):
            assert_equal(here, there)
            assert str(here.draws(epoch, 0)) == str(there.draws(epoch, 0))


STAY: dict[str, Callable[[], ps.Dataset]] = {
    "bytes": lambda: photographs().transform(image=USUAL[:3]).batch(4).transform(MIX_UP),
    "two mixes": lambda: two(image=[NORMALIZE], other=[NORMALIZE]).batch(4).transform(image.MixUp(num_classes=CLASSES, columns="image")).transform(image.CutMix(num_classes=3, columns="other", labels="label_2")),
    "a function above": lambda: photographs().transform(image=USUAL).batch(4).transform(MIX_UP).map(lambda batch: batch),
    "a function between": lambda: photographs().transform(image=USUAL).batch(4).map(lambda batch: batch).transform(MIX_UP),
    "a cache between": lambda: photographs().transform(image=USUAL[:1] + LAST[1:]).cache(freeze_random=True).batch(4).transform(MIX_UP),
    "noise": lambda: photographs().transform(image=[*USUAL, image.RandomErasing(value="random")]).batch(4).transform(MIX_UP),
}  # fmt: skip


@pytest.mark.parametrize("plan", STAY.values(), ids=STAY.keys())
def test_what_stays_on_the_cpu(plan: Callable[[], ps.Dataset], monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = both(plan(), monkeypatch)
    with here, there:
        assert lowered_of(there).on_device == ""
        assert_equal(here, there)


def test_a_transform_behind_a_mix_goes_to_the_device_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels_of = photographs().transform(image=[*USUAL[:2], image.ToLayout("NHWC")])
    plan = pixels_of.batch(4).transform(MIX_UP).transform(image=[NORMALIZE])
    here, there = both(plan, monkeypatch)
    with here, there:
        assert lowered_of(there).on_device == "image: Normalize"
        assert_equal(here, there)


def test_a_column_that_the_host_converts_is_mixed_there(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = two(image=[NORMALIZE], other=[FLIP, NORMALIZE]).batch(4).transform(MIX_UP)
    here, there = both(plan, monkeypatch, convert={"image": "float64"})
    with here, there:
        assert lowered_of(there).on_device == "other: RandomHorizontalFlip, Normalize, MixUp"
        assert_equal(here, there)


def test_axes_are_turned_behind_the_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = both(
        photographs().transform(image=LAST).batch(4).transform(CUT), monkeypatch, convert={"image": "channels_last"}
    )
    with here, there:
        assert_equal(here, there)


@pytest.mark.parametrize("op", [BY_ROW, EITHER], ids=["MixUp", "one of them"])
def test_ranks_states_and_single_steps(op: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = photographs().repeat(4).shuffle(seed=3).transform(image=CHAINS["both flips"])
    dataset = dataset.batch(16, lanes=2).transform(op)
    for rank in range(2):
        here, there = both(dataset, monkeypatch, rank=rank, world_size=2)
        with here, there:
            assert "Normalize, " in lowered_of(there).on_device
            assert_equal([here.batch_at(5, 1)], [there.batch_at(5, 1)])
            batches = iter(there)
            next(batches)
            here.load_state_dict(there.state_dict())
            assert_equal(here, batches)


def test_substitutes_are_mixed_as_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = [b"no image" if i % 5 == 2 else encoded(picture(40, 30, i), "JPEG") for i in range(40)]
    dataset = ps.from_arrays({"image": broken, "label": np.arange(40) % CLASSES}).shuffle(seed=3)
    here, there = both(dataset.transform(image=USUAL).batch(8).transform(EITHER), monkeypatch, on_error="substitute")
    with here, there, pytest.warns(UserWarning, match="More bad samples"):  # noqa: PT031
        assert lowered_of(there).on_device
        for _ in range(2):
            assert_equal(here, there)


def test_the_host_mixes_no_floats_and_its_slots_hold_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = pixels().shuffle(seed=1).transform(image=[NORMALIZE]).batch(4).transform(MIX_UP)
    here, there = both(plan, monkeypatch)
    with here, there:
        assert lowered_of(there).item_bytes < lowered_of(here).item_bytes / 3
        assert [stage.name for stage in lowered_of(there).stages if "transform" in stage.name] == ["transform MixUp"]


@pytest.mark.parametrize("labels", [np.arange(12) + 1, np.arange(12) - 1])
def test_labels_that_are_too_large_are_named(labels: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = ps.from_arrays({"image": np.zeros((12, 4, 4, 3), np.uint8), "label": labels})
    for loader in both(dataset.transform(image=[NORMALIZE]).batch(4).transform(MIX_UP), monkeypatch):
        with loader, pytest.raises(ps.DataError, match="num_classes=12"):
            list(loader)


def test_images_cross_as_bytes_and_are_mixed_behind_the_kernel_on_the_side_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cuda = FakeCuda(monkeypatch)
    made = np.random.default_rng(0).integers(0, 256, (400, 8, 8, 3), np.uint8)
    plan = ps.from_arrays({"image": made, "label": np.arange(400) % CLASSES}).shuffle(seed=1)
    plan = plan.transform(image=[FLIP, NORMALIZE]).batch(80).transform(image.RandomChoice([MIX_UP, CUT_BY_ROW]))
    with ps.Loader(plan, to="torch") as here, ps.Loader(plan, to="torch", device="cuda:1", cpus=2) as there:
        assert "image: RandomHorizontalFlip, Normalize, RandomChoice" in there.explain()
        for _ in range(3):
            assert_equal(here, there)
        side = there._deliver._stream
        assert {stream for stream, _ in cuda.kernels} == {stream for stream, *_ in cuda.copies} == {side}
        assert len(cuda.kernels) >= 2 * 3 * 5, "of each step the kernel, and the mix"
        assert {name.rstrip("01") for _, name in cuda.kernels} == {"penstock-deliver-"}
        assert cuda.contexts == {1}
        assert max(size for size, _ in cuda.sources) < 2 * 80 * 8 * 8 * 3, "bytes are copied, not float32"
        assert all(is_pinned for size, is_pinned in cuda.sources if size > 4096)


def test_a_batch_is_mixed_though_the_device_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda(monkeypatch, late=True)
    plan = pixels().shuffle(seed=1).transform(image=[NORMALIZE]).batch(4).transform(CUT_BY_ROW)
    found: list[Any] = []
    with ps.Loader(plan, to="torch") as here, ps.Loader(plan, to="torch", device="cuda", cpus=2) as there:
        for batch in there:
            seen = cuda.memory.seen(batch["image"])
            cuda.launch(lambda seen=seen: found.append(seen().clone()))
        cuda.do(cuda.pending(cuda.current_stream()))
        assert all(torch.equal(one["image"], other) for one, other in zip(here, found, strict=True))
