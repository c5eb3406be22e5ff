"""Ops on colours against torchvision v2 on uint8 tensors: the same pixels for fixed arguments, the same distributions of what is drawn."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from golden.make_colours import CASES, hashes
from penstock.core.columns.spec import Field
from penstock.core.errors import PlanError
from penstock.transform import image
from penstock.transform.image import ImageKernel, ToLayout, fuse
from support.images import encoded, picture, spans

torch = pytest.importorskip("torch")
v2 = pytest.importorskip("torchvision.transforms.v2")
datasets = pytest.importorskip("sklearn.datasets")
F = v2.functional

Pixels = npt.NDArray[Any]

SHAPES = ((224, 224), (17, 33), (131, 97), (3, 9), (1, 9), (9, 1), (2, 2), (1, 1))


def never() -> tuple[int, int]:
    raise AssertionError("the size of the first picture was asked for")


def kernel_of(ops: image.ImageOp | list[image.ImageOp], shape: tuple[int, ...]) -> ImageKernel:
    chain = ops if isinstance(ops, list) else [ops]
    return fuse([*chain, ToLayout("NHWC")], Field("uint8", shape), never)


def run(
    ops: image.ImageOp | list[image.ImageOp], pixels: Pixels, rows: int = 1, key: int = 1, threads: int = 1
) -> Pixels:
    kernel = kernel_of(ops, pixels.shape)
    out = np.empty((rows, *kernel.field.shape), kernel.field.numpy_dtype)
    same = np.ascontiguousarray(np.broadcast_to(pixels, (rows, *pixels.shape)))
    kernel(same, np.arange(rows), key=key, out=out, threads=threads)
    return out


def drawn(op: image.ImageOp, rows: int = 10_000, channels: int = 3) -> dict[str, npt.NDArray[np.float64]]:
    """What an op draws for so many rows."""
    column = np.broadcast_to(np.zeros((1, 1, 1, 1), np.uint8), (rows, 4, 4, channels))
    return kernel_of(op, (4, 4, channels)).drawn(column, np.arange(rows), 3)[0]


def noise(shape: tuple[int, int], channels: int = 3) -> Pixels:
    """Extremes, pixels without colour, and all between."""
    random = np.random.default_rng(shape)
    values = random.integers(0, 256, (*shape, channels), dtype=np.uint8)
    values = np.where(random.random(values.shape) < 0.3, values // 128 * 255, values).astype(np.uint8)
    return np.where(random.random((*shape, 1)) < 0.2, values[..., :1], values).astype(np.uint8)


def pictures() -> list[Pixels]:
    china, flower = datasets.load_sample_images().images
    dull = np.broadcast_to(china[:90, :70, 1:2], (90, 70, 3))
    return [china[60:285, 100:325], flower[100:230, 200:403], dull, np.full((20, 21, 3), 77, np.uint8)]


def theirs(function: Callable[[Any], Any], pixels: Pixels) -> Pixels:
    result: Pixels = function(torch.from_numpy(pixels.transpose(2, 0, 1).copy())).numpy()
    return result.transpose(1, 2, 0)


def differences(op: image.ImageOp, function: Callable[[Any], Any], *, channels: int = 3, least: int = 1) -> Pixels:
    """How many levels apart ours and torchvision's are: of all numbers, in photographs and noise of sides from `least` on."""
    apart = []
    for pixels in [*pictures(), *(noise(shape) for shape in SHAPES)]:
        if min(pixels.shape[:2]) >= least:
            some = np.ascontiguousarray(pixels[..., :channels])
            ours, expected = run(op, some)[0], theirs(function, some)
            assert ours.shape == expected.shape
            apart.append(np.abs(ours.astype(int) - expected).ravel())
    return np.concatenate(apart)


EQUAL: dict[str, tuple[image.ImageOp, Callable[[Any], Any]]] = {
    "brightness 1.3": (image.ColorJitter(brightness=(1.3, 1.3)), lambda x: F.adjust_brightness(x, 1.3)),
    "brightness 0": (image.ColorJitter(brightness=(0, 0)), lambda x: F.adjust_brightness(x, 0.0)),
    "solarize 100.5": (image.RandomSolarize(100.5, 1), lambda x: F.solarize(x, 100.5)),
    "solarize 255": (image.RandomSolarize(255, p=1), lambda x: F.solarize(x, 255)),
    "solarize below": (image.RandomSolarize(-1, p=1), lambda x: F.solarize(x, -1.0)),
    **{
        f"posterize {bits}": (image.RandomPosterize(bits, 1), lambda x, bits=bits: F.posterize(x, bits))  # type: ignore[misc]
        for bits in range(9)
    },
    "invert": (image.RandomInvert(1), F.invert),
    "autocontrast": (image.RandomAutocontrast(1), F.autocontrast),
    "equalize": (image.RandomEqualize(1), F.equalize),
    "grey": (image.Grayscale(), F.rgb_to_grayscale),
    "grey of three channels": (image.Grayscale(3), lambda x: F.rgb_to_grayscale(x, 3)),
    **{f"JPEG {q}": (image.JPEG(q), lambda x, q=q: F.jpeg(x, q)) for q in (1, 10, 49, 50, 75, 90, 100)},  # type: ignore[misc]
}
NEAR: dict[str, tuple[image.ImageOp, Callable[[Any], Any]]] = {
    **{
        f"{name} {factor}": (
            image.ColorJitter(**{name: (factor, factor)}),
            lambda x, name=name, factor=factor: getattr(F, f"adjust_{name}")(x, factor),  # type: ignore[misc]
        )
        for name, factors in {
            "contrast": (0, 0.05, 1.7),
            "saturation": (0, 0.05, 1.7),
            "hue": (-0.37, 0.1, 0.5),
        }.items()
        for factor in factors
    },
    **{
        f"sharpness {factor}": (
            image.RandomAdjustSharpness(factor, 1),
            lambda x, factor=factor: F.adjust_sharpness(x, factor),  # type: ignore[misc]
        )
        for factor in (0, 0.3, 2.5)
    },
    "blur 3": (image.GaussianBlur(3, 0.8), lambda x: F.gaussian_blur(x, 3, 0.8)),
    "blur 5 and 3": (image.GaussianBlur((5, 3), 1.3), lambda x: F.gaussian_blur(x, [5, 3], 1.3)),
    "blur 23": (image.GaussianBlur(23, 1.9), lambda x: F.gaussian_blur(x, 23, 1.9)),
    "blur 1": (image.GaussianBlur(1, 0.1), lambda x: F.gaussian_blur(x, 1, 0.1)),
}


@pytest.mark.parametrize("channels", [3, 1])
@pytest.mark.parametrize("name", EQUAL)
def test_tables_and_jpeg_equal_torchvisions(name: str, channels: int) -> None:
    op, function = EQUAL[name]
    assert differences(op, function, channels=channels).max() == 0


@pytest.mark.parametrize("channels", [3, 1])
@pytest.mark.parametrize("name", NEAR)
def test_blends_and_blurs_are_within_a_level_of_torchvisions(name: str, channels: int) -> None:
    """999 of 1,000 numbers equal, where torchvision fuses multiplications and additions as processors with AVX2 do; hue has two levels."""
    op, function = NEAR[name]
    least = max(op.kernel_size) // 2 + 1 if isinstance(op, image.GaussianBlur) else 1
    apart = differences(op, function, channels=channels, least=least)
    assert apart.max() <= (2 if "hue" in name else 1)
    if "AVX" in torch.backends.cpu.get_cpu_capability():
        assert (apart > 0).mean() <= 0.001


def test_changes_in_a_row_are_what_they_are_one_after_another() -> None:
    """Tables become one, and whole images stand between rows."""
    ops = [
        image.RandomInvert(1),
        image.RandomSolarize(90, 1),
        image.RandomEqualize(1),
        image.ColorJitter(saturation=(0.4, 0.4)),
    ]
    ops += [
        image.RandomPosterize(5, 1),
        image.RandomAutocontrast(1),
        image.CenterCrop((30, 20)),
        image.RandomInvert(1),
        image.JPEG(60),
    ]
    pixels = noise((41, 67))
    expected = pixels
    for op in ops:
        expected = run(op, expected)[0]
    np.testing.assert_array_equal(run(ops, pixels)[0], expected)


def test_a_part_of_a_whole_image_is_recoloured() -> None:
    """The rows of a canvas's part lie further apart than the part is wide."""
    pixels = noise((50, 90))
    blurred = run(image.GaussianBlur(3, 1.0), pixels)[0]
    got = run([image.GaussianBlur(3, 1.0), image.CenterCrop(20), image.RandomInvert(1)], pixels)[0]
    np.testing.assert_array_equal(got, 255 - blurred[15:35, 35:55])


def test_margins_get_colours_too() -> None:
    got = run(
        [image.CenterCrop((20, 24)), image.RandomInvert(1), image.GaussianBlur(3, 1.0)],
        np.full((4, 4, 3), 255, np.uint8),
    )[0]
    assert (got[0] == 255).all()
    assert got[10, 12, 0] == 0


def theirs_drawn(op: Any, rows: int = 10_000) -> list[dict[str, Any]]:
    torch.manual_seed(0)
    sample = [torch.zeros(3, 4, 4, dtype=torch.uint8)]
    return [op.make_params(sample) for _ in range(rows)]


def assert_alike(ours: npt.ArrayLike, expected: npt.ArrayLike) -> None:
    stats = pytest.importorskip("scipy.stats")
    found = stats.ks_2samp(np.asarray(ours, float), np.asarray(expected, float), method="asymp")
    assert found.pvalue > 0.001


def digits(place: Any) -> int:
    return int("".join(str(int(one)) for one in place))


class TestDraws:
    """10,000 draws each, of fixed seeds."""

    @pytest.mark.slow
    def test_color_jitter(self) -> None:
        ours = drawn(image.ColorJitter(0.4, (0.5, 2), 1.5, 0.1))
        expected = theirs_drawn(v2.ColorJitter(0.4, (0.5, 2), 1.5, 0.1))
        for name in ("brightness_factor", "contrast_factor", "saturation_factor", "hue_factor"):
            assert_alike(ours[name], [one[name] for one in expected])
        assert len(set(ours["order"])) == 24
        assert_alike(ours["order"], [digits(one["fn_idx"]) for one in expected])

    @pytest.mark.slow
    def test_photometric_distort(self) -> None:
        ours, expected = drawn(image.RandomPhotometricDistort(p=0.3)), theirs_drawn(v2.RandomPhotometricDistort(p=0.3))
        for name in ("brightness_factor", "contrast_factor", "saturation_factor", "hue_factor"):
            have = np.isfinite(ours[name])
            assert_alike(have, [one[name] is not None for one in expected])
            assert_alike(ours[name][have], [one[name] for one in expected if one[name] is not None])
        assert_alike(ours["contrast_before"], [one["contrast_before"] for one in expected])
        orders = [digits(one["channel_permutation"]) for one in expected if one["channel_permutation"] is not None]
        assert_alike(ours["permutation"][np.isfinite(ours["permutation"])], orders)

    def test_channels(self) -> None:
        expected = [digits(one["permutation"]) for one in theirs_drawn(v2.RandomChannelPermutation())]
        assert_alike(drawn(image.RandomChannelPermutation())["permutation"], expected)

    def test_sigma_and_quality(self) -> None:
        expected = theirs_drawn(v2.GaussianBlur(5, (0.3, 1.7)))
        assert_alike(drawn(image.GaussianBlur(5, (0.3, 1.7)))["sigma"], [one["sigma"][0] for one in expected])
        ours = drawn(image.JPEG((20, 30)))["quality"]
        assert set(ours) == set(range(20, 31))
        assert_alike(ours, [one["quality"] for one in theirs_drawn(v2.JPEG((20, 30)))])

    @pytest.mark.parametrize("op", [image.RandomEqualize, image.RandomAutocontrast])
    def test_probabilities(self, op: Any) -> None:
        assert abs(drawn(op(0.3))["applied"].mean() - 0.3) < 0.02
        assert abs(drawn(image.RandomAdjustSharpness(2, 0.3))["applied"].mean() - 0.3) < 0.02

    @pytest.mark.parametrize("numbers", [(0.0, 0.1, True), (0.1, 0.5, True), (-0.2, 0.3, False), (0.0, 0.002, True)])
    def test_noise(self, numbers: tuple[float, float, bool]) -> None:
        pixels = np.full((200, 200, 3), 100, np.uint8)
        ours = run(image.GaussianNoise(*numbers), pixels)[0]
        torch.manual_seed(1)
        assert_alike(ours.ravel(), theirs(lambda x: F.gaussian_noise(x, *numbers), pixels).ravel())
        assert abs(np.corrcoef(ours[..., 0].ravel(), ours[..., 1].ravel())[0, 1]) < 0.02
        assert not np.array_equal(*run(image.GaussianNoise(sigma=0.1), pixels, rows=2))

    def test_what_is_neutral_draws_and_does_nothing(self) -> None:
        assert set(drawn(image.ColorJitter(0, (1, 1), None, 0.0), rows=5)) == {"order"}
        assert image.ColorJitter(0, hue=0) == image.ColorJitter()
        pixels = noise((9, 9))
        np.testing.assert_array_equal(run(image.ColorJitter(), pixels)[0], pixels)
        np.testing.assert_array_equal(run(image.GaussianNoise(0, 0), pixels)[0], pixels)


EVERY: list[image.ImageOp] = [
    image.ColorJitter(0.4, 0.4, 0.4, 0.1),
    image.RandomPhotometricDistort(),
    image.RandomChannelPermutation(),
    image.Grayscale(3),
    image.RandomSolarize(100),
    image.RandomPosterize(3),
    image.RandomEqualize(),
    image.RandomAutocontrast(),
    image.RandomAdjustSharpness(2),
    image.GaussianBlur(5),
    image.GaussianNoise(),
    image.JPEG((10, 90)),
]


def test_threads_and_encoding_change_nothing() -> None:
    data = [encoded(picture(60 + size, 50, mode="RGB"), "PNG") for size in range(6)]
    ops = [image.Decode(), image.Resize((40, 48)), *EVERY, image.ToLayout("NHWC")]
    kernel = fuse(ops, Field("bytes"), never)
    outs = [np.empty((6, *kernel.field.shape), np.uint8) for _ in range(2)]
    for out, threads in zip(outs, (1, 4), strict=True):
        kernel(spans(*data), np.arange(6), key=5, out=out, threads=threads)
    np.testing.assert_array_equal(*outs)
    held = run([image.Resize((40, 48)), *EVERY], np.asarray(picture(60, 50, mode="RGB")), key=5)
    # A number more for Decode, which draws nothing.
    shifted = fuse(ops[1:], Field("uint8", (50, 60, 3)), never, numbers=range(1, len(ops)))
    shifted(np.asarray(picture(60, 50, mode="RGB"))[None], np.arange(1), key=5, out=outs[1][:1], threads=1)
    np.testing.assert_array_equal(outs[0][0], outs[1][0])
    assert held.shape == (1, 40, 48, 3)


@pytest.mark.parametrize("shape", [(1, 65_535), (65_535, 1), (1, 1)])
@pytest.mark.parametrize("op", EVERY, ids=repr)
def test_thin_images(op: image.ImageOp, shape: tuple[int, int]) -> None:
    pixels = noise(shape)
    assert run(op, pixels).shape == (1, *pixels.shape)
    assert run(op, pixels[..., :1]).shape[:3] == (1, *shape)


class TestModes:
    @pytest.mark.parametrize("op", [*EVERY, image.Grayscale(), image.RandomGrayscale(), image.RandomInvert()], ids=repr)
    def test_indices_and_wide_numbers_are_refused(self, op: image.ImageOp) -> None:
        with pytest.raises(PlanError, match='"P"'):
            fuse([image.Decode(mode="P"), image.Resize((8, 8), "nearest"), op], Field("bytes"), never)
        with pytest.raises(PlanError, match='"I16"'):
            fuse([image.Decode(mode="I16"), image.Resize((8, 8)), op], Field("bytes"), never)
        with pytest.raises(PlanError, match="Normalize"):
            fuse([image.Decode(), image.Resize((8, 8)), image.Normalize(image.IMAGENET), op], Field("bytes"), never)
        if not isinstance(op, image.GaussianBlur):
            with pytest.raises(PlanError, match='"RGBA"'):
                kernel_of(op, (8, 8, 4))

    @pytest.mark.parametrize("channels", [2, 4])
    def test_alpha_is_blurred(self, channels: int) -> None:
        pixels = noise((30, 40), channels)
        np.testing.assert_array_equal(
            run(image.GaussianBlur(3, 1.0), pixels)[0][..., -1:], run(image.GaussianBlur(3, 1.0), pixels[..., -1:])[0]
        )

    def test_grey_changes_the_mode_of_what_follows(self) -> None:
        """Ops behind it work on one channel, as torchvision's do, and so does Normalize."""
        pixels = pictures()[0]
        tail = [
            image.ColorJitter(contrast=(1.5, 1.5)),
            image.RandomHorizontalFlip(1),
            image.Resize((50, 60)),
            image.JPEG(40),
        ]
        expected = theirs(lambda x: F.rgb_to_grayscale(x, 1), pixels)
        np.testing.assert_array_equal(run([image.Grayscale(), *tail], pixels), run(tail, expected))
        kernel = fuse([image.Grayscale(1), image.Normalize(0.5, 0.25)], Field("uint8", pixels.shape), never)
        assert kernel.field == Field("float32", (1, *pixels.shape[:2]))
        back = run([image.Grayscale(1), image.Grayscale(3)], pixels)[0]
        np.testing.assert_array_equal(back, np.broadcast_to(expected, pixels.shape))

    def test_grey_inside_a_random_op_is_refused(self) -> None:
        with pytest.raises(PlanError, match="must be the same for all images"):
            kernel_of(image.RandomApply([image.Grayscale(1)]), (8, 8, 3))
        assert kernel_of(image.RandomApply([image.Grayscale(3)]), (8, 8, 3)).field.shape == (8, 8, 3)


BAD: list[Callable[[], image.ImageOp]] = [
    lambda: image.Grayscale(2),
    lambda: image.ColorJitter(-0.1),
    lambda: image.ColorJitter(brightness=(0.5,)),
    lambda: image.ColorJitter(contrast=(2, 1)),
    lambda: image.ColorJitter(saturation=(-1, 1)),
    lambda: image.ColorJitter(hue=0.6),
    lambda: image.ColorJitter(hue=(-0.6, 0)),
    lambda: image.ColorJitter("much"),  # type: ignore[arg-type]
    lambda: image.ColorJitter(float("nan")),
    lambda: image.RandomPhotometricDistort(brightness=(-1, 1)),
    lambda: image.RandomPhotometricDistort(hue=(0, 0.7)),
    lambda: image.RandomPhotometricDistort(contrast=0.5),  # type: ignore[arg-type]
    lambda: image.RandomPhotometricDistort(p=2),
    lambda: image.RandomSolarize(256),
    lambda: image.RandomSolarize(float("nan")),
    lambda: image.RandomPosterize(9),
    lambda: image.RandomPosterize(-1),
    lambda: image.RandomPosterize(2.5),  # type: ignore[arg-type]
    lambda: image.RandomEqualize(1.5),
    lambda: image.RandomAutocontrast(-0.5),
    lambda: image.RandomAdjustSharpness(-1),
    lambda: image.RandomAdjustSharpness(float("inf")),
    lambda: image.GaussianBlur(4),
    lambda: image.GaussianBlur(0),
    lambda: image.GaussianBlur((3, 3, 3)),  # type: ignore[arg-type]
    lambda: image.GaussianBlur(3, 0),
    lambda: image.GaussianBlur(3, (2, 1)),
    lambda: image.GaussianNoise(sigma=-1),
    lambda: image.GaussianNoise(mean=float("inf")),
    lambda: image.JPEG(0),
    lambda: image.JPEG(101),
    lambda: image.JPEG((50, 40)),
    lambda: image.JPEG(50.5),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_wrong_arguments_are_told(number: int) -> None:
    with pytest.raises(PlanError, match="give"):
        BAD[number]()


def test_what_torchvision_takes_is_taken() -> None:
    assert image.GaussianBlur([3]) == image.GaussianBlur(3)  # type: ignore[arg-type]
    assert image.GaussianBlur((3, 5), [0.5]).sigma == (0.5, 0.5)  # type: ignore[arg-type]
    assert image.ColorJitter([0.8, 1.2], hue=np.float64(0.2)).hue == (-0.2, 0.2)
    assert image.ColorJitter(2).brightness == (0.0, 3.0)
    assert image.JPEG([5, 9]).quality == (5, 9)  # type: ignore[arg-type]


def test_colours_are_pinned() -> None:
    """Resumed runs see the same pixels only as long as these stay: a change here changes every augmentation."""
    pinned = json.loads((Path(__file__).parents[1] / "golden/colours.json").read_text())
    assert set(pinned) == set(CASES)
    assert hashes() == pinned
