"""An image and its mask are cut and mirrored alike, whatever runs them: ranks, resuming, processes, caches, the device."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import penstock as ps
from support import promises
from support.images import picture

I = ps.image  # noqa: E741  # as users write it
ROWS = 24
CROP, FLIP, DOWN = I.RandomResizedCrop(12), I.RandomHorizontalFlip(), I.RandomVerticalFlip()
OPS = [I.Decode(), CROP, FLIP, DOWN]


def write(folder: Path, size: Callable[[int], tuple[int, int]] = lambda row: (30 + row, 50 - row)) -> None:
    """Pictures of various sizes."""
    folder.mkdir()
    for row in range(ROWS):
        picture(*size(row), seed=row).save(folder / f"{row:02}.png")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("pairs")
    write(root / "images")
    write(root / "masks")
    return root


def pairs(root: Path) -> ps.Dataset:
    return ps.zip(
        [ps.read(root / "images", columns=["image"]), ps.read(root / "masks", columns={"mask": "image"})], on="stem"
    )


def batches(plan: ps.Dataset, **options: Any) -> list[dict[str, Any]]:
    with ps.Loader(plan, **options) as loader:
        return [promises.keep(batch) for _ in range(2) for batch in loader]


def assert_alike(found: list[dict[str, Any]]) -> None:
    assert found
    for batch in found:
        assert (batch["image"] == batch["mask"]).all()


def together(data: ps.Dataset) -> ps.Dataset:
    return data.transform(image=OPS, mask=OPS, draws="together")


PLANS: dict[str, Callable[[ps.Dataset], ps.Dataset]] = {
    "plain": lambda data: together(data.shuffle(seed=0)).batch(8),
    "natural": lambda data: together(data).batch(8),
    "before the shuffle": lambda data: together(data).shuffle(seed=1).batch(8),
    "behind the batch": lambda data: together(data.shuffle(seed=1).batch(8)),
    "in two transforms": lambda data: data.shuffle(seed=1).transform(image=OPS[:2], mask=OPS[:2], draws="together").transform(mask=OPS[2:], image=OPS[2:], draws="together").batch(8),
    "decoded before": lambda data: data.transform(image=I.Decode(), mask=I.Decode()).transform(mask=OPS[1:], image=OPS[1:], draws="together").batch(8),
    "at other places": lambda data: data.transform(image=[I.Decode(), I.Resize((40, 40)), I.ToLayout(), *OPS[1:]], mask=[I.Decode(), I.Resize((40, 40)), *OPS[1:]], draws="together").batch(8),
    "cached before": lambda data: data.transform(image=[I.Decode(), I.Resize((20, 30))], mask=[I.Decode(), I.Resize((20, 30))]).cache().transform(image=OPS[1:], mask=OPS[1:], draws="together").batch(8),
    "frozen": lambda data: together(data).cache(freeze_random=True).shuffle(seed=1).batch(8),
    "frozen between": lambda data: data.transform(image=OPS[:2], mask=OPS[:2], draws="together").cache(freeze_random=True).transform(image=OPS[2:], mask=OPS[2:], draws="together").shuffle(seed=1).batch(8),
    "repeated": lambda data: together(data.shuffle(seed=1).repeat(2)).batch(8),
    "mixed": lambda data: ps.mix([together(data.take(12)), together(data.skip(12))], rows=24).shuffle(seed=1).batch(8, lanes=4),
    "filtered by a function": lambda data: together(data).filter(lambda batch: np.ones(len(batch["image"]), bool)).batch(8, steps=3),
    "a function behind": lambda data: together(data).map(dict).batch(8),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANS)
def test_a_mask_is_cut_as_its_image_is(name: str, files: Path) -> None:
    plan = PLANS[name](pairs(files))
    found = batches(plan)
    assert_alike(found)
    assert len({batch["image"].tobytes() for batch in found}) > 2
    epochs = len(found) // 2
    assert name == "frozen" or any(
        (one["image"] != other["image"]).any() for one, other in zip(found[:epochs], found[epochs:], strict=True)
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plain", "in two transforms", "cached before", "mixed"])
def test_on_any_ranks_and_after_resuming(name: str, files: Path) -> None:
    plan = PLANS[name](pairs(files))
    promises.ranks_make_one_batch(plan)
    promises.resume_is_exact(plan)
    promises.any_step_can_be_made(plan)


@pytest.mark.slow
def test_in_another_process(files: Path) -> None:
    plan = PLANS["plain"](pairs(files))
    for here, there in zip(batches(plan), batches(plan, isolation="process"), strict=True):
        promises.assert_same(here, there)


def test_the_image_draws_what_it_would_draw_alone(files: Path) -> None:
    data = pairs(files).shuffle(seed=2)
    alone = batches(data.transform(image=OPS).select("image").batch(8))
    for name in ("image", "mask"):
        chosen = batches(together(data).select(name).batch(8))
        assert all((one["image"] == other[name]).all() for one, other in zip(alone, chosen, strict=True))


def test_colours_and_numbers_are_the_images_alone(files: Path) -> None:
    """A mask has other sizes, interpolation and dtype, no grey and no Normalize; it is cut all the same."""
    data = pairs(files).shuffle(seed=2)
    image = [I.Decode(), I.RandomGrayscale(0.5), CROP, I.RandomGrayscale(0.5), FLIP, DOWN, I.Normalize(I.IMAGENET)]
    mask = [*OPS[:1], I.RandomResizedCrop(6, interpolation="nearest", antialias=False), FLIP, DOWN]
    alone = batches(data.transform(image=image).select("image").batch(8))
    found = batches(data.transform(image=image, mask=mask, draws="together").batch(8))
    for one, both in zip(alone, found, strict=True):
        assert (one["image"] == both["image"]).all()
        assert both["mask"].shape == (8, 3, 6, 6)
        assert both["mask"].dtype == np.uint8
    image, mask = image[:1] + image[2:3] + image[4:6], [*mask[:1], CROP, *mask[2:]]
    assert_alike(batches(data.transform(image=image, mask=mask, draws="together").batch(8)))


def test_ops_of_one_kind_follow_each_other_one_by_one() -> None:
    """Two flips are two draws, and a second view's own are others."""
    pixels = np.random.default_rng(0).integers(0, 256, (200, 2, 3, 3), np.uint8)
    data = ps.from_arrays({"a": pixels, "b": pixels, "c": pixels})
    plan = data.transform(a=[FLIP], b=[FLIP], draws="together").transform(b=[FLIP], c=[FLIP], draws="apart").batch(200)
    (batch,) = batches(plan)[:1]
    mirrored = {name: (batch[name] != pixels.transpose(0, 3, 1, 2)).any(axis=(1, 2, 3)) for name in "abc"}
    second = mirrored["a"] ^ mirrored["b"]
    for one, other in ((mirrored["a"], second), (second, mirrored["c"]), (mirrored["a"], mirrored["c"])):
        assert 60 < (one ^ other).sum() < 140


def test_views_apart_draw_as_they_always_did() -> None:
    """Pinned before there was an option: saved states of such plans go on."""
    draw = np.random.default_rng(0)
    data = ps.from_arrays({name: draw.integers(0, 255, (24, 12, 10, 3), np.uint8) for name in "ab"})
    ops = [I.RandomResizedCrop(6), FLIP, DOWN]
    plan = data.shuffle(seed=3).transform(a=ops, b=[I.CenterCrop(8), *ops], draws="apart").batch(8)
    state = hashlib.blake2b(digest_size=8)
    for batch in batches(plan):
        state.update(batch["a"].tobytes())
        state.update(batch["b"].tobytes())
    assert state.hexdigest() == "b1ca06887ebe8054"
    with ps.Loader(plan) as loader:
        assert loader.state_dict()["plan"] == ["read ef68adaf", "shuffle seed=3", "transform c4e25f82", "batch size=8"]


@pytest.mark.parametrize("device", [False, True])
def test_what_the_device_does_of_an_image_the_host_does_of_its_mask(
    device: bool, files: Path, monkeypatch: Any
) -> None:
    torch = pytest.importorskip("torch")
    if device:
        from support.device_on_cpu import device_on_cpu

        device_on_cpu(monkeypatch)
    numbers = I.ToDtype("float32")
    plan = pairs(files).shuffle(seed=0).transform(image=[*OPS, numbers], mask=OPS, draws="together").batch(8)
    with ps.Loader(plan, to="torch") as loader:
        for batch in loader:
            assert torch.equal(batch["image"], batch["mask"].float())


# Sizes


def test_sizes_that_differ_are_an_error_that_names_the_row_and_both(files: Path, tmp_path: Path) -> None:
    """Of files of various sizes one mask has another one; other rows are as they were."""
    (tmp_path / "images").symlink_to(files / "images")
    write(tmp_path / "masks")
    picture(9, 7).save(tmp_path / "masks" / "13.png")
    plan = together(pairs(tmp_path).shuffle(seed=0)).batch(8)
    with pytest.raises(ps.DataError) as caught:
        batches(plan)
    for words in (
        "images/13.png with ",
        "masks/13.png",
        "'image' is 43 × 37 pixels",
        "'mask' is 9 × 7 pixels",
        "Resize",
    ):
        assert words in str(caught.value)
    with pytest.warns(UserWarning, match="9 × 7"):
        found = batches(plan, on_error="substitute")
    assert_alike(found)
    assert len(found) == 6
    sized = [I.Decode(), I.Resize((20, 20)), CROP]
    assert len(batches(pairs(tmp_path).transform(image=sized, mask=sized, draws="together").batch(8))) == 6
    flips = [I.Decode(), FLIP, I.Resize((20, 20))]  # draw whatever the sizes are
    assert len(batches(pairs(tmp_path).transform(image=flips, mask=flips, draws="together").batch(8))) == 6


def test_sizes_count_where_the_part_is_drawn() -> None:
    """Arrays of one size each, resized to another before the crop, or not."""
    draw = np.random.default_rng(0)
    data = ps.from_arrays(
        {name: draw.integers(0, 256, (8, side, side, 3), np.uint8) for name, side in (("a", 20), ("b", 10))}
    )
    with pytest.raises(ps.DataError, match=r"sample 0.*'a' is 20 × 20 pixels.*'b' is 10 × 10 pixels"):
        batches(data.transform(a=[CROP], b=[CROP], draws="together").batch(4))
    plan = data.transform(a=[I.Resize(10), CROP, FLIP], b=[CROP, FLIP], draws="together").batch(4)
    assert len(batches(plan)) == 4


def test_an_image_that_is_turned_by_its_exif_has_the_size_it_is_turned_to(tmp_path: Path) -> None:
    for name in ("images", "masks"):
        (tmp_path / name).mkdir()
    exif = Image.Exif()
    exif[0x0112] = 6
    picture(30, 20).save(tmp_path / "images" / "a.jpg", exif=exif)
    picture(20, 30).save(tmp_path / "masks" / "a.png")
    turned = [I.Decode(apply_exif=True), CROP]
    assert len(batches(pairs(tmp_path).transform(image=turned, mask=OPS[:2], draws="together").batch(1))) == 2
    with pytest.raises(ps.DataError, match="30 × 20"):
        batches(pairs(tmp_path).transform(image=OPS[:2], mask=OPS[:2], draws="together").batch(1))


def test_a_damaged_mask_is_an_error_of_its_own(files: Path, tmp_path: Path) -> None:
    (tmp_path / "images").symlink_to(files / "images")
    write(tmp_path / "masks")
    (tmp_path / "masks" / "05.png").write_bytes(b"no image")
    with pytest.raises(ps.DataError, match=r"05\.png"):
        batches(together(pairs(tmp_path)).batch(8))


def test_the_state_is_small_and_goes_on(files: Path) -> None:
    plan = PLANS["plain"](pairs(files))
    with ps.Loader(plan) as loader:
        next(iter(loader))
        state = json.dumps(loader.state_dict())
        assert len(state) < 4096
