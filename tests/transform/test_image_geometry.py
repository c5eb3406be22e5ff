"""Margins, warps and random sizes against torchvision v2 on uint8 tensors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from penstock.core.columns.spec import Field
from penstock.core.errors import PlanError, RowError
from penstock.transform import image
from penstock.transform.image import ImageKernel, ToLayout, fuse
from support.image_hashes import geometry_hashes
from support.images import encoded, picture, spans

torch = pytest.importorskip("torch")
v2 = pytest.importorskip("torchvision.transforms.v2")
F = v2.functional

GOLDEN = Path(__file__).parents[1] / "golden"

Pixels = npt.NDArray[Any]

SHAPES = ((224, 224), (17, 33), (1, 9), (9, 1), (1, 1))
FILLS = (None, 0, 7.5, (10.0, 200.0, 30.0))


def never() -> tuple[int, int]:
    raise AssertionError("the size of the first picture was asked for")


def kernel_of(op: image.ImageOp, shape: tuple[int, ...], dtype: str = "uint8") -> ImageKernel:
    return fuse([op, ToLayout("NHWC")], Field(dtype, shape), never)


def run(op: image.ImageOp, pixels: Pixels, rows: int = 1, key: int = 1, threads: int = 1) -> Pixels:
    kernel = kernel_of(op, pixels.shape, str(pixels.dtype))
    out = np.empty((rows, *kernel.field.shape), kernel.field.numpy_dtype)
    same = np.ascontiguousarray(np.broadcast_to(pixels, (rows, *pixels.shape)))
    kernel(same, np.arange(rows), key=key, out=out, threads=threads)
    return out


def drawn(op: image.ImageOp, shape: tuple[int, ...], rows: int = 10_000) -> dict[str, npt.NDArray[np.float64]]:
    """What an op draws for so many images of that size."""
    column = np.broadcast_to(np.zeros((1, 1, 1, 1), np.uint8), (rows, *shape))
    return kernel_of(op, shape).drawn(column, np.arange(rows), 3)[0]


def noise(shape: tuple[int, int], channels: int = 3) -> Pixels:
    """Extremes and all between."""
    random = np.random.default_rng(shape)
    values = random.integers(0, 256, (*shape, channels), dtype=np.uint8)
    return np.where(random.random(values.shape) < 0.3, values // 128 * 255, values).astype(np.uint8)


def tensor(pixels: Pixels) -> Any:
    return torch.from_numpy(pixels.transpose(2, 0, 1).copy())


def numbers(result: Any) -> Pixels:
    return result.numpy().transpose(1, 2, 0)


def is_close(one: Pixels, other: Pixels, interpolation: str) -> bool:
    """1 level in 99.9 %; of nearest pixels the same ones in 99.9 %."""
    assert one.shape == other.shape
    off = np.abs(one.astype(int) - other.astype(int)) > (interpolation == "bilinear")
    return bool(off.mean() <= 0.001)


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
@pytest.mark.parametrize("shape", SHAPES)
class TestWarps:
    @pytest.mark.parametrize("fill", FILLS)
    def test_rotation_is_torchvisions(self, shape: tuple[int, int], interpolation: Any, fill: Any) -> None:
        pixels = noise(shape)
        for angle in (0, 33.3, 90, 180, -45):
            for center in (None, (3.0, 5.0)) if fill == 0 else (None,):
                got = run(image.RandomRotation((angle, angle), interpolation, center=center, fill=fill), pixels)[0]
                mode = v2.InterpolationMode(interpolation)
                wanted = F.rotate(tensor(pixels), angle, mode, False, center, fill and np.atleast_1d(fill).tolist())
                assert is_close(got, numbers(wanted), interpolation), (angle, center)

    def test_expanded_rotation_has_torchvisions_size_and_pixels(
        self, shape: tuple[int, int], interpolation: Any
    ) -> None:
        pixels = noise(shape)
        for angle in (45, 90, 123.4, 180, 270):
            wanted = F.rotate(tensor(pixels), angle, v2.InterpolationMode(interpolation), True, None, [9.0])
            got = run(image.RandomRotation((angle, angle), interpolation, expand=True, fill=9), pixels)[0]
            assert is_close(got, numbers(wanted), interpolation), angle

    @pytest.mark.parametrize("fill", FILLS)
    def test_affine_is_torchvisions(self, shape: tuple[int, int], interpolation: Any, fill: Any) -> None:
        pixels = noise(shape)
        for scale, shear in ((1.0, (0.0, 0.0)), (1.3, (10.0, 0.0)), (0.7, (5.0, -20.0)), (1.0, (17.0, 0.0))):
            for center in (None, (0.0, 0.0)) if fill == 0 else (None,):
                both = (shear[0], shear[0], shear[1], shear[1])
                op = image.RandomAffine((12, 12), None, (scale, scale), both, interpolation, fill, center)
                mode = v2.InterpolationMode(interpolation)
                fills = fill and np.atleast_1d(fill).tolist()
                wanted = F.affine(tensor(pixels), 12.0, [0, 0], scale, list(shear), mode, fills, center)
                assert is_close(run(op, pixels)[0], numbers(wanted), interpolation), (scale, shear, center)

    def test_what_affine_draws_is_what_it_does(self, shape: tuple[int, int], interpolation: Any) -> None:
        pixels = noise(shape)
        op = image.RandomAffine(0, (0.3, 0.3), None, None, interpolation, 5)
        shifts = kernel_of(op, pixels.shape).drawn(pixels[None].repeat(8, 0), np.arange(8), 1)[0]
        for row, got in enumerate(run(op, pixels, 8)):
            by = [int(shifts["translate_x"][row]), int(shifts["translate_y"][row])]
            wanted = F.affine(tensor(pixels), 0.0, by, 1.0, [0.0], v2.InterpolationMode(interpolation), [5.0])
            assert np.array_equal(got, numbers(wanted))

    def test_perspective_is_torchvisions(self, shape: tuple[int, int], interpolation: Any) -> None:
        pixels = noise(shape)
        op = image.RandomPerspective(0.6, 1.0, interpolation, fill=(10, 20, 30))
        drawn = kernel_of(op, pixels.shape).drawn(pixels[None].repeat(8, 0), np.arange(8), 1)[0]
        for row, got in enumerate(run(op, pixels, 8)):
            wanted = pixels
            if "a" in drawn and not np.isnan(drawn["a"][row]):
                by = [float(drawn[name][row]) for name in "abcdefgh"]
                mode = v2.InterpolationMode(interpolation)
                wanted = numbers(F.perspective(tensor(pixels), None, None, mode, [10.0, 20.0, 30.0], by))
            assert is_close(got, wanted, interpolation)
        assert min(shape) == 1 or "a" in drawn

    def test_elastic_moves_every_pixel_and_no_further_than_alpha(
        self, shape: tuple[int, int], interpolation: Any
    ) -> None:
        height, width = shape
        columns = np.broadcast_to(np.arange(width, dtype=np.uint8)[None, :, None], (height, width, 1)).copy()
        got = run(image.ElasticTransform(20.0, 1.0, interpolation), columns, 2)
        assert got.shape == (2, height, width, 1)
        inner = got[:, 12:-12, 12:-12].astype(int) - columns[12:-12, 12:-12].astype(int)
        assert not inner.size or np.abs(inner).max() <= 10
        assert width < 9 or not np.array_equal(got[0], got[1])


@pytest.mark.slow
def test_elastic_displacements_are_distributed_as_torchvisions() -> None:
    """Of a ramp along x, the change is the displacement along x."""
    stats = pytest.importorskip("scipy.stats")
    ramp = np.broadcast_to((np.arange(128, dtype=np.uint8) * 2)[None, :, None], (128, 128, 1)).copy()
    torch.manual_seed(0)
    op = v2.ElasticTransform(alpha=60.0, sigma=3.0)
    wanted = np.concatenate(
        [
            numbers(op(tensor(ramp)))[16:-16:16, 16:-16:16].ravel() - 0.0 - ramp[16:-16:16, 16:-16:16].ravel()
            for _ in range(30)
        ]
    )
    got = run(image.ElasticTransform(60.0, 3.0), ramp, 30).astype(float) - ramp
    got = got[:, 16:-16:16, 16:-16:16].ravel()
    assert stats.ks_2samp(got, wanted).pvalue > 0.01
    assert got.std() == pytest.approx(wanted.std(), rel=0.07)


def test_rotations_by_quarters_of_rectangles_are_exact() -> None:
    pixels = noise((17, 33))
    for angle, times in ((90, 1), (180, 2), (270, 3), (-90, 3), (450, 1)):
        got = run(image.RandomRotation((angle, angle), "bilinear", expand=True), pixels)[0]
        assert np.array_equal(got, np.rot90(pixels, times))


class TestMargins:
    PADDINGS = (3, [2], (1, 2), (5, 0, 1, 2), (0, 0, 0, 0))

    @pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
    @pytest.mark.parametrize("channels", [1, 2, 3, 4])
    def test_pad_is_torchvisions(self, mode: Any, channels: int) -> None:
        pixels = noise((17, 33), channels)
        for padding in self.PADDINGS:
            wanted = F.pad(tensor(pixels), list(np.atleast_1d(padding)), 7, mode)
            assert np.array_equal(run(image.Pad(padding, 7, mode), pixels)[0], numbers(wanted))

    def test_fill_by_channel_is_torchvisions(self) -> None:
        pixels = noise((17, 33))
        wanted = F.pad(tensor(pixels), [1, 2, 3, 4], [1.9, 255, 0])
        assert np.array_equal(run(image.Pad((1, 2, 3, 4), (1.9, 255, 0)), pixels)[0], numbers(wanted))

    @pytest.mark.parametrize("mode", ["reflect", "symmetric", "edge"])
    def test_a_margin_wider_than_the_image_is_numpys(self, mode: Any) -> None:
        pixels = noise((3, 5))
        wanted = np.pad(pixels, ((7, 8), (13, 11), (0, 0)), mode)
        assert np.array_equal(run(image.Pad((13, 7, 11, 8), 0, mode), pixels)[0], wanted)

    def test_a_negative_margin_crops(self) -> None:
        pixels = noise((17, 33))
        assert np.array_equal(
            run(image.Pad((-1, -2, -3, 4), 9), pixels)[0], numbers(F.pad(tensor(pixels), [-1, -2, -3, 4], 9))
        )
        with pytest.raises(RowError, match="leaves nothing"):
            run(image.Pad(-9), noise((17, 33)))

    @pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
    def test_random_crop_is_a_part_of_the_padded_image(self, mode: Any) -> None:
        pixels = noise((17, 33))
        op = image.RandomCrop((19, 30), (2, 3), fill=9, padding_mode=mode)
        padded = numbers(F.pad(tensor(pixels), [2, 3], 9, mode))
        corners = kernel_of(op, pixels.shape).drawn(pixels[None].repeat(40, 0), np.arange(40), 1)[0]
        for row, got in enumerate(run(op, pixels, 40)):
            y, x = int(corners["top"][row]), int(corners["left"][row])
            assert np.array_equal(got, padded[y : y + 19, x : x + 30])
        assert set(corners["top"]) == set(range(5))
        assert set(corners["left"]) == set(range(8))

    def test_pad_if_needed_pads_both_ends_by_what_lacks(self) -> None:
        op = v2.RandomCrop((25, 20), pad_if_needed=True)
        params = op.make_params([tensor(noise((17, 33)))])
        assert params["padding"] == [0, 8, 0, 8]
        found = drawn(image.RandomCrop((25, 20), pad_if_needed=True), (17, 33, 3), 500)
        assert set(found["top"]) == set(range(9))
        assert set(found["left"]) == set(range(14))

    def test_an_image_smaller_than_its_crop_is_an_error(self) -> None:
        with pytest.raises(RowError, match=r"33 × 17 pixels.*smaller than RandomCrop\(\(20, 20\)\).*pad_if_needed"):
            run(image.RandomCrop(20), noise((17, 33)))

    def test_zoom_out_keeps_the_image_inside(self) -> None:
        pixels = noise((5, 7))
        op = image.RandomZoomOut((1, 2, 3), (2.0, 2.0), 1.0)
        places = kernel_of(op, pixels.shape).drawn(pixels[None].repeat(20, 0), np.arange(20), 1)[0]
        for row, got in enumerate(run(op, pixels, 20)):
            y, x = int(places["top"][row]), int(places["left"][row])
            wanted = np.full((10, 14, 3), (1, 2, 3), np.uint8)
            wanted[y : y + 5, x : x + 7] = pixels
            assert np.array_equal(got, wanted)


class TestSizes:
    def test_sizes_are_torchvisions(self) -> None:
        for op, reference in (
            (image.RandomShortestSize([64], 100), v2.RandomShortestSize([64], 100)),
            (image.ScaleJitter((70, 50), (1.3, 1.3)), v2.ScaleJitter((70, 50), (1.3, 1.3))),
            (image.RandomResize(40, 41), v2.RandomResize(40, 41)),
        ):
            for shape in ((100, 333), (333, 100), (77, 77)):
                wanted = F.get_size(reference(torch.zeros((1, *shape), dtype=torch.uint8)))
                assert list(kernel_of(op, (*shape, 3)).field.shape[:2]) == wanted

    def test_letterbox_holds_all_of_the_image(self) -> None:
        pixels = np.full((50, 100, 3), 200, np.uint8)
        got = run(image.Letterbox((64, 81), fill=114), pixels)[0]
        assert got.shape == (64, 81, 3)
        inside = np.zeros((64, 81), bool)
        inside[12:52] = True  # 40 rows, rounded from 40.5 to even; 24 are left
        assert (got[inside] == 200).all()
        assert (got[~inside] == 114).all()


def ks(found: npt.NDArray[np.float64], wanted: list[float]) -> float:
    stats = pytest.importorskip("scipy.stats")
    return float(stats.ks_2samp(found, wanted).pvalue)


DRAWS = {
    "rotation": (image.RandomRotation((-20, 70)), v2.RandomRotation((-20, 70)), {"angle": lambda p: p["angle"]}),
    "affine": (
        image.RandomAffine(30, (0.2, 0.1), (0.5, 2.0), (-5, 5, 0, 9)),
        v2.RandomAffine(30, (0.2, 0.1), (0.5, 2.0), (-5, 5, 0, 9)),
        {
            "angle": lambda p: p["angle"],
            "translate_x": lambda p: p["translate"][0],
            "translate_y": lambda p: p["translate"][1],
            "scale": lambda p: p["scale"],
            "shear_x": lambda p: p["shear"][0],
            "shear_y": lambda p: p["shear"][1],
        },
    ),
    "perspective": (
        image.RandomPerspective(0.5, 1.0),
        v2.RandomPerspective(0.5, 1.0),
        {name: (lambda p, i=i: p["coefficients"][i]) for i, name in enumerate("abcdefgh")},
    ),
    "crop": (
        image.RandomCrop((90, 120), 4),
        v2.RandomCrop((90, 120), 4),
        {"top": lambda p: p["top"], "left": lambda p: p["left"]},
    ),
    "zoom": (
        image.RandomZoomOut(0, (1.0, 4.0), 1.0),
        v2.RandomZoomOut(0, (1.0, 4.0), 1.0),
        {
            "left": lambda p: p["padding"][0],
            "top": lambda p: p["padding"][1],
            "width": lambda p: p["padding"][0] + p["padding"][2] + 160,
        },
    ),
    "resize": (image.RandomResize(50, 90), v2.RandomResize(50, 90), {"size": lambda p: p["size"][0]}),
    "jitter": (
        image.ScaleJitter((120, 160)),
        v2.ScaleJitter((120, 160)),
        {"scale": lambda p: p["size"][0] / (120 * min(160 / 120, 120 / 160))},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWS)
def test_draws_are_distributed_as_torchvisions(name: str) -> None:
    ours, reference, parameters = DRAWS[name]
    torch.manual_seed(1)
    like = torch.zeros((1, 120, 160), dtype=torch.uint8)
    made = [reference.make_params([like]) for _ in range(2_000 if name == "perspective" else 10_000)]
    found = drawn(ours, (120, 160, 3))
    for parameter, of in parameters.items():
        # What torchvision rounds to whole pixels lies up to one below.
        slack = 1e-6 if name != "jitter" else 0.001
        assert ks(found[parameter], [of(params) for params in made]) > slack, parameter


class TestColumns:
    OPS = (
        image.RandomRotation(40, "bilinear", fill=9),
        image.RandomAffine(40, (0.2, 0.2), (0.5, 1.5), 20),
        image.RandomPerspective(p=0.7),
        image.ElasticTransform(),
        image.RandomCrop(40, 3, padding_mode="reflect"),
        image.Pad(3, padding_mode="symmetric"),
    )

    @pytest.mark.parametrize("op", OPS, ids=lambda op: type(op).__name__)
    def test_threads_and_encoding_change_nothing(self, op: image.ImageOp) -> None:
        pixels = np.asarray(picture(61, 47))
        one = run(op, pixels, 9)
        assert np.array_equal(one, run(op, pixels, 9, threads=4))
        data = encoded(picture(61, 47), "PNG")
        kernel = fuse([image.Decode(), op, ToLayout("NHWC")], Field("bytes"), lambda: (47, 61), numbers=(0, 0, 1))
        out = np.empty((9, *kernel.field.shape), np.uint8)
        kernel(spans(*[data] * 9), np.arange(9), key=1, out=out, threads=2)
        assert np.array_equal(one, out)

    @pytest.mark.parametrize("op", OPS, ids=lambda op: type(op).__name__)
    def test_alpha_moves_along(self, op: image.ImageOp) -> None:
        pixels = noise((47, 61), 1)
        if getattr(op, "interpolation", "") == "bilinear" or isinstance(
            op, image.RandomCrop | image.Pad | image.RandomAffine
        ):
            one = run(op, pixels, 3)
            for channels in (2, 4):
                assert np.array_equal(run(op, pixels.repeat(channels, 2), 3), one.repeat(channels, 3))

    def test_numbers_of_16_bits_stay_whole(self) -> None:
        wide = np.random.default_rng(0).integers(0, 1 << 16, (47, 61, 1)).astype(np.uint16)
        high, low = (wide >> 8).astype(np.uint8), (wide & 255).astype(np.uint8)
        for op in (
            image.RandomAffine(40, (0.2, 0.2), (0.5, 1.5), 20),
            image.RandomPerspective(p=1, interpolation="nearest"),
            image.Pad(4, 0, "reflect"),
        ):
            got = run(op, wide, 3)
            assert np.array_equal(got >> 8, run(op, high, 3))
            assert np.array_equal(got & 255, run(op, low, 3))
        filled = run(image.RandomRotation((45, 45), fill=40_000), wide)
        assert filled[0, 0, 0, 0] == 40_000

    def test_long_images(self) -> None:
        for shape in ((1, 65_535, 1), (65_535, 1, 1)):
            pixels = np.full(shape, 77, np.uint8)
            for op in (
                image.RandomRotation((1, 1), "bilinear"),
                image.RandomPerspective(p=1),
                image.ElasticTransform(5, 1),
                image.Pad(1, 0, "edge"),
            ):
                assert (run(op, pixels) <= 77).all()


BAD = (
    lambda: image.RandomRotation(-3),
    lambda: image.RandomRotation((5, 3)),
    lambda: image.RandomRotation(3, "bicubic"),
    lambda: image.RandomRotation(3, center=(1, 2, 3)),
    lambda: image.RandomRotation(3, fill="black"),
    lambda: image.RandomRotation(float("nan")),
    lambda: image.RandomAffine(3, translate=(0.1, 1.1)),
    lambda: image.RandomAffine(3, scale=(0, 1)),
    lambda: image.RandomAffine(3, shear=(1, 2, 3)),
    lambda: image.RandomPerspective(1.5),
    lambda: image.RandomPerspective(0.5, 2),
    lambda: image.ElasticTransform(sigma=-1),
    lambda: image.ElasticTransform(sigma=(0, 3)),
    lambda: image.ElasticTransform(alpha=(1, 2, 3)),
    lambda: image.Pad((1, 2, 3)),
    lambda: image.Pad(1.5),
    lambda: image.Pad(1, padding_mode="mirror"),
    lambda: image.Pad(1, (1, 2, 3), "edge"),
    lambda: image.RandomCrop(0),
    lambda: image.RandomZoomOut(side_range=(0.5, 2)),
    lambda: image.RandomResize(40, 40),
    lambda: image.RandomShortestSize([]),
    lambda: image.ScaleJitter((3, 4), (0, 2)),
    lambda: image.Letterbox((3, 4, 5)),
)


@pytest.mark.parametrize("make", BAD)
def test_wrong_arguments_are_plan_errors(make: Any) -> None:
    with pytest.raises(PlanError, match="; give"):
        make()


def test_what_pixels_cannot_is_a_plan_error() -> None:
    with pytest.raises(PlanError, match="fills 2 channels"):
        kernel_of(image.RandomRotation(3, fill=(1, 2)), (9, 9, 3))
    with pytest.raises(PlanError, match="from 0 to 255"):
        kernel_of(image.Pad(3, 256), (9, 9, 3))
    with pytest.raises(PlanError, match="16 bits"):
        kernel_of(image.RandomPerspective(), (9, 9, 1), "uint16")
    with pytest.raises(PlanError, match="palette"):
        fuse([image.Decode(mode="P"), image.RandomRotation(3, "bilinear")], Field("bytes"), never)
    with pytest.raises(PlanError, match="put it before"):
        fuse([image.ToDtype("float32"), image.RandomCrop(3)], Field("uint8", (9, 9, 3)), never)


def test_pixels_are_pinned() -> None:
    """A resumed run must go on with the pixels that it would have had."""
    assert geometry_hashes() == json.loads((GOLDEN / "image_geometry.json").read_text())
