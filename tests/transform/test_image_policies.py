"""Policies against torchvision v2 on uint8 tensors, and against timm's arithmetic: the same pixels for what is drawn, and the same distributions of that."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from golden.make_policies import CASES, hashes
from penstock.core.columns.spec import Field
from penstock.core.errors import PlanError
from penstock.transform import image as images
from penstock.transform.image import ImageKernel, fuse
from penstock.transform.image.policies import STEPS
from support.images import encoded, picture, spans

torch = pytest.importorskip("torch")
v2 = pytest.importorskip("torchvision.transforms.v2")
datasets = pytest.importorskip("sklearn.datasets")
stats = pytest.importorskip("scipy.stats")
I = images  # noqa: E741  # as users write it

Pixels = npt.NDArray[Any]
Draws = dict[str, npt.NDArray[np.float64]]

ROWS = 30
SHAPES = ((97, 131, 3), (17, 33, 3), (41, 40, 1), (1, 9, 3), (9, 1, 1), (1, 1, 3))
LOOKS = (("nearest", None), ("nearest", 7.0), ("bilinear", None), ("bilinear", (10.0, 200.0, 30.0)))


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Threads of torch's would wait for one another, on images this small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def never() -> tuple[int, int]:
    raise AssertionError("the size of the first picture was asked for")


def kernel_of(op: I.ImageOp, shape: tuple[int, ...]) -> ImageKernel:
    return fuse([op, I.ToLayout("NHWC")], Field("uint8", shape), never)


def run(op: I.ImageOp, pixels: Pixels, rows: int = ROWS, key: int = 1, threads: int = 1) -> Pixels:
    kernel = kernel_of(op, pixels.shape)
    out = np.empty((rows, *kernel.field.shape), kernel.field.numpy_dtype)
    same = np.ascontiguousarray(np.broadcast_to(pixels, (rows, *pixels.shape)))
    kernel(same, np.arange(rows), key=key, out=out, threads=threads)
    return out


def drawn(op: I.ImageOp, shape: tuple[int, ...] = (224, 333, 3), rows: int = 10_000, key: int = 3) -> Draws:
    """What a policy draws for so many images of that size."""
    column = np.broadcast_to(np.zeros((1, 1, 1, 1), np.uint8), (rows, *shape))
    return kernel_of(op, shape).drawn(column, np.arange(rows), key)[0]


def photograph(shape: tuple[int, ...]) -> Pixels:
    china = datasets.load_sample_images().images[0]
    return np.ascontiguousarray(china[60 : 60 + shape[0], 200 : 200 + shape[1], : shape[2]])


def tensor(pixels: Pixels) -> Any:
    return torch.from_numpy(pixels.transpose(2, 0, 1).copy())


def numbers(result: Any) -> Pixels:
    pixels: Pixels = result.numpy().transpose(1, 2, 0)
    return pixels


def steps(draws: Draws, row: int) -> Iterator[tuple[str, float]]:
    """The steps of a row that were done, and their magnitudes."""
    for place in range(1, 13):
        op = draws.get(f"op_{place}", np.full(row + 1, np.nan))[row]
        if not np.isnan(op):
            yield STEPS[int(op)], float(draws[f"magnitude_{place}"][row])


def step_of(policy: Any, image: Any, step: tuple[str, float]) -> Any:
    """What torchvision makes of it."""
    return policy._apply_image_or_video_transform(
        image, *step, interpolation=v2.InterpolationMode(policy.interpolation), fill=policy._fill
    )


def apart(ours: Pixels, theirs: Pixels) -> Pixels:
    assert ours.shape == theirs.shape
    return np.abs(ours.astype(int) - theirs.astype(int))


PAIRS: dict[str, tuple[Callable[..., I.ImageOp], Callable[..., Any]]] = {
    "TrivialAugmentWide": (I.TrivialAugmentWide, v2.TrivialAugmentWide),
    "RandAugment": (lambda **how: I.RandAugment(1, **how), lambda **how: v2.RandAugment(1, **how)),
    "RandAugment 3": (lambda **how: I.RandAugment(3, 5, 11, **how), lambda **how: v2.RandAugment(3, 5, 11, **how)),
    **{
        f"AutoAugment {name}": (
            lambda name=name, **how: I.AutoAugment(name, **how),
            lambda name=name, **how: v2.AutoAugment(v2.AutoAugmentPolicy(name), **how),
        )
        for name in ("imagenet", "cifar10", "svhn")
    },
}


@pytest.mark.parametrize(("interpolation", "fill"), LOOKS)
@pytest.mark.parametrize("name", PAIRS)
def test_pixels_are_those_of_torchvisions_steps(name: str, interpolation: Any, fill: Any) -> None:
    """Of one step, 1 level in 99.9 %; of several, 1 image in 10 has a step that makes more of a level, as posterize and equalize do."""
    make, reference = PAIRS[name]
    for shape in SHAPES:
        if shape[2] == 1 and isinstance(fill, tuple):
            continue
        pixels, op = photograph(shape), make(interpolation=interpolation, fill=fill)
        policy = reference(interpolation=interpolation, fill=list(fill) if isinstance(fill, tuple) else fill)
        draws, off = drawn(op, shape, ROWS, key=1), []
        for row, got in enumerate(run(op, pixels)):
            image, done = tensor(pixels), list(steps(draws, row))
            for step in done:
                image = step_of(policy, image, step)
            wrong = (apart(got, numbers(image)) > 1).mean()
            assert len(done) > 1 or wrong <= 0.001, (shape, done)
            off.append(wrong > 0.001)
        assert np.mean(off) <= 0.1, shape


@pytest.mark.slow
def test_magnitudes_are_torchvisions_to_the_bit() -> None:
    """Of every bin, and of images of many sides."""
    for bins in (2, 7, 10, 31, 100):
        found = drawn(I.TrivialAugmentWide(bins), rows=30_000 if bins == 100 else 10_000)
        for number, name in enumerate(STEPS[:14]):
            of_all, signed = v2.TrivialAugmentWide._AUGMENTATION_SPACE[name]
            theirs = of_all(bins, 224, 333)
            expected = {0.0} if theirs is None else set(theirs.tolist())
            ours = found["magnitude_1"][found["op_1"] == number]
            assert set(np.abs(ours)) == expected
            assert (ours < 0).any() == bool(signed)
    for height, width in ((224, 333), (97, 41), (1, 1), (7, 1_001)):
        for magnitude in (0, 3, 9, 30):
            found = drawn(I.RandAugment(1, magnitude), (height, width, 3), rows=300)
            for number, name in enumerate(STEPS[:14]):
                theirs = v2.RandAugment._AUGMENTATION_SPACE[name][0](31, height, width)
                ours = np.abs(found["magnitude_1"][found["op_1"] == number])
                assert set(ours) == {0.0 if theirs is None else float(theirs[magnitude])}


def assert_uniform(values: npt.ArrayLike, count: int) -> None:
    """By a chi-square test."""
    values = np.asarray(values)
    found = np.bincount(values.astype(int), minlength=count)
    assert len(found) == count
    assert stats.chisquare(found).pvalue > 0.001


def test_steps_bins_and_signs_are_equally_likely() -> None:
    found = drawn(I.TrivialAugmentWide())
    assert_uniform(found["op_1"], 14)
    turns = found["magnitude_1"][found["op_1"] == STEPS.index("Rotate")]
    assert_uniform(np.abs(turns) / 135 * 30 + 0.5, 31)
    found = drawn(I.RandAugment(2, 9))
    assert_uniform(found["op_1"] * 14 + found["op_2"], 196)
    shears = found["magnitude_2"][found["op_2"] == STEPS.index("ShearX")]
    assert_uniform(shears > 0, 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["imagenet", "cifar10", "svhn"])
def test_pairs_and_their_probabilities_are_torchvisions(name: Any) -> None:
    found, reference = drawn(I.AutoAugment(name), rows=20_000), v2.AutoAugment(v2.AutoAugmentPolicy(name))
    assert_uniform(found["policy"], 25)
    for number, pair in enumerate(reference._policies):
        of_pair = found["policy"] == number
        for place, (step, p, magnitude) in enumerate(pair, 1):
            ops = found[f"op_{place}"][of_pair]
            assert abs(np.isfinite(ops).mean() - p) < 0.08
            assert set(ops[np.isfinite(ops)]) <= {STEPS.index(step)}
            theirs = reference._AUGMENTATION_SPACE[step][0](10, 224, 333)
            expected = 0.0 if theirs is None else float(theirs[magnitude])
            magnitudes = np.abs(found[f"magnitude_{place}"][of_pair])
            assert set(magnitudes[np.isfinite(magnitudes)]) <= {expected}


class TestAugMix:
    @pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
    @pytest.mark.parametrize("how", [(3, 3, -1, 1.0), (10, 2, 4, 0.4), (1, 4, 1, 20.0)])
    def test_blends_are_torchvisions(self, how: Any, interpolation: Any) -> None:
        reference = v2.AugMix(*how, interpolation=interpolation)
        for shape in SHAPES[:4]:
            op, pixels = I.AugMix(*how, interpolation=interpolation), photograph(shape)
            draws, off = drawn(op, shape, ROWS, key=1), []
            for row, got in enumerate(run(op, pixels)):
                image, left = tensor(pixels), list(steps(draws, row))
                mix = torch.tensor(draws["weight"][row], dtype=torch.float32).reshape(1, 1, 1) * image
                for number in range(1, how[1] + 1):
                    other = image
                    for _ in range(int(draws[f"depth_{number}"][row])):
                        other = step_of(reference, other, left.pop(0))
                    weight = torch.tensor(draws[f"weight_{number}"][row], dtype=torch.float32)
                    mix.add_(weight.reshape(1, 1, 1) * other)
                assert not left
                off.append((apart(got, numbers(mix.to(torch.uint8))) > 1).mean() > 0.001)
            assert np.mean(off) <= 0.15, shape

    @pytest.mark.slow
    @pytest.mark.parametrize("alpha", [0.2, 1.0, 5.0])
    def test_weights_are_distributed_as_torchvisions(self, alpha: float) -> None:
        found = drawn(I.AugMix(alpha=alpha), (9, 9, 3))
        torch.manual_seed(0)
        both = torch._sample_dirichlet(torch.tensor([alpha, alpha]).expand(10_000, -1))
        shares = torch._sample_dirichlet(torch.tensor([alpha] * 3).expand(10_000, -1)) * both[:, 1:]
        assert stats.ks_2samp(found["weight"], both[:, 0].numpy()).pvalue > 0.001
        for number in range(3):
            assert stats.ks_2samp(found[f"weight_{number + 1}"], shares[:, number].numpy()).pvalue > 0.001
        every = found["weight"] + found["weight_1"] + found["weight_2"] + found["weight_3"]
        np.testing.assert_allclose(every, 1, atol=1e-6)

    @pytest.mark.slow
    def test_steps_and_depths_are_torchvisions(self) -> None:
        for all_ops, kinds in ((True, v2.AugMix._AUGMENTATION_SPACE), (False, v2.AugMix._PARTIAL_AUGMENTATION_SPACE)):
            found = drawn(I.AugMix(all_ops=all_ops))
            assert_uniform(found["depth_2"] - 1, 3)
            counted = Counter(STEPS[int(op)] for op in found["op_1"])
            assert set(counted) == set(kinds)
            assert stats.chisquare(list(counted.values())).pvalue > 0.001
            for name, (of_all, _) in kinds.items():
                theirs = of_all(10, 224, 333)
                ours = set(np.abs(found["magnitude_1"][found["op_1"] == STEPS.index(name)]))
                assert ours == ({0.0} if theirs is None else set(theirs[:3].tolist()))


#: timm 1.0's steps in its order, and what each makes of a level: tests/golden/make_timm.py.
TIMM = json.loads((Path(__file__).parents[1] / "golden" / "timm.json").read_text())


class TestTimm:
    @pytest.mark.parametrize("config", TIMM)
    def test_arguments_are_timms(self, config: str) -> None:
        """Of a fixed level: every number that a step makes of it, and no other; and each step by its probability."""
        found = drawn(I.timm(config))
        for step, expected in TIMM[config].items():
            ours = found["magnitude_1"][found["op_1"] == STEPS.index(step)]
            assert len(ours)
            np.testing.assert_allclose(sorted(set(np.round(ours, 9))), expected, atol=1e-9)
        done = found["op_1"][np.isfinite(found["op_1"])]
        assert set(done) == {STEPS.index(step) for step in TIMM[config]}
        assert_uniform(np.searchsorted(sorted(set(done)), done), 15)

    def test_defaults_and_probabilities(self) -> None:
        found = drawn(I.timm("rand-m9"))
        assert abs(np.isfinite(found["op_1"]).mean() - 0.5) < 0.02
        assert {"op_1", "op_2"} == {name for name in found if name.startswith("op")}
        assert abs(np.isfinite(drawn(I.timm("rand-p0.8-n1"))["op_1"]).mean() - 0.8) < 0.02
        assert np.isfinite(drawn(I.timm("rand-n3-p1"))["op_3"]).all()

    @pytest.mark.slow
    def test_levels_vary_by_a_normal_or_uniform_distribution(self) -> None:
        random = np.random.default_rng(0)
        for config, levels in (
            ("rand-m7-mstd0.5-n1-p1", random.normal(7, 0.5, 10_000)),
            ("rand-m9-mstd3-n1-p1", random.normal(9, 3, 10_000).clip(0, 10)),
            ("rand-m9-mstd3-mmax20-n1-p1", random.normal(9, 3, 10_000).clip(0, 20)),
            ("rand-m9-mstd101-n1-p1", random.uniform(0, 9, 10_000)),
        ):
            found = drawn(I.timm(config), rows=30_000)
            turns = np.abs(found["magnitude_1"][found["op_1"] == STEPS.index("Rotate")]) / 3
            assert stats.ks_2samp(turns, levels).pvalue > 0.001
            factors = found["magnitude_1"][found["op_1"] == STEPS.index("Brightness")]
            assert stats.ks_2samp((factors - 0.1) / 0.18, levels).pvalue > 0.001

    def test_pixels_are_pillows_within_what_it_says(self) -> None:
        """Colours against timm's own steps in Pillow; geometry against torchvision's map of the same numbers."""
        image_module, ops, enhance = (
            pytest.importorskip(f"PIL.{name}") for name in ("Image", "ImageOps", "ImageEnhance")
        )
        pixels = photograph((97, 131, 3))
        theirs: dict[str, Callable[[Any, float], Any]] = {
            "AutoContrast": lambda image, _: ops.autocontrast(image),
            "Equalize": lambda image, _: ops.equalize(image),
            "Invert": lambda image, _: ops.invert(image),
            "Posterize": lambda image, bits: ops.posterize(image, int(bits)),
            "Solarize": lambda image, threshold: ops.solarize(image, int(threshold)),
            "SolarizeAdd": lambda image, by: image.point(
                [min(255, n + int(by)) if n < 128 else n for n in range(256)] * 3
            ),
            "Color": lambda image, factor: enhance.Color(image).enhance(factor),
            "Contrast": lambda image, factor: enhance.Contrast(image).enhance(factor),
            "Brightness": lambda image, factor: enhance.Brightness(image).enhance(factor),
            "Sharpness": lambda image, factor: enhance.Sharpness(image).enhance(factor),
        }
        op = I.timm("rand-m6-mstd2-n1-p1-inc1", fill=0)
        draws, seen = drawn(op, pixels.shape, 150, key=1), set()
        for row, got in enumerate(run(op, pixels, 150)):
            ((step, argument),) = steps(draws, row)
            seen.add(step)
            if step in theirs:
                wanted = np.asarray(theirs[step](image_module.fromarray(pixels), argument))
                is_blend = step in ("AutoContrast", "Color", "Contrast", "Brightness", "Sharpness")
                assert apart(got, wanted).max() <= (2 if is_blend else 0), step
            else:
                assert_warped(got, pixels, step, argument)
        assert seen == set(TIMM["rand-m9-n1-p1"])

    def test_other_strings_are_refused(self) -> None:
        for config in (
            "rand-m9-tweights",
            "rand-x3",
            "augmix-m5",
            "rand-m-9",
            "",
            "rand-m9.5",
            "rand-p2",
            "rand-m9-",
            3,
        ):
            with pytest.raises(PlanError, match="give"):
                I.timm(config)  # type: ignore[arg-type]
        assert repr(I.timm("rand-m9")).startswith("timm('rand-m9'")


def assert_warped(got: Pixels, pixels: Pixels, step: str, argument: float) -> None:
    """1 level in 97 % of Pillow's, but where pixels come from outside."""
    from PIL import Image

    image, (height, width) = Image.fromarray(pixels), pixels.shape[:2]
    matrix = {
        "ShearX": (1, argument, 0, 0, 1, 0),
        "ShearY": (1, 0, 0, argument, 1, 0),
        "TranslateX": (1, 0, argument * width, 0, 1, 0),
        "TranslateY": (1, 0, 0, 0, 1, argument * height),
    }
    if step == "Rotate":
        wanted = image.rotate(argument, Image.Resampling.BILINEAR)
    else:
        wanted = image.transform(image.size, Image.Transform.AFFINE, matrix[step], Image.Resampling.BILINEAR)
    assert (apart(got, np.asarray(wanted)) > 1).mean() < 0.03, (step, argument)


EVERY: list[I.ImageOp] = [
    I.TrivialAugmentWide(),
    I.RandAugment(3, interpolation="bilinear", fill=9),
    I.AutoAugment(),
    I.AutoAugment("svhn", "bilinear"),
    I.AugMix(),
    I.timm("rand-m9-mstd0.5-inc1", fill=128),
]


@pytest.mark.parametrize("op", EVERY, ids=repr)
def test_threads_encoding_and_other_ops_change_nothing(op: I.ImageOp) -> None:
    pixels = np.asarray(picture(61, 47, mode="RGB"))
    one = run(op, pixels)
    np.testing.assert_array_equal(one, run(op, pixels, threads=4))
    assert len({row.tobytes() for row in one}) > ROWS // 4
    kernel = fuse([I.Decode(), op, I.ToLayout("NHWC")], Field("bytes"), lambda: (47, 61), numbers=[0, 0, 2])
    out = np.empty_like(one)
    kernel(spans(*[encoded(picture(61, 47, mode="RGB"), "PNG")] * ROWS), np.arange(ROWS), key=1, out=out, threads=2)
    np.testing.assert_array_equal(one, out)


@pytest.mark.parametrize("op", EVERY, ids=repr)
def test_thin_and_grey_images(op: I.ImageOp) -> None:
    for shape in ((1, 65_535, 1), (65_535, 1, 1), (1, 1, 3), (1, 3, 3)):
        assert run(op, np.full(shape, 77, np.uint8), 6).shape == (6, *shape)


@pytest.mark.parametrize("op", EVERY, ids=repr)
def test_what_pixels_cannot_is_a_plan_error(op: I.ImageOp) -> None:
    for mode in ("P", "I16"):
        with pytest.raises(PlanError, match=f'"{mode}"'):
            fuse([I.Decode(mode=mode), I.Resize((8, 8), "nearest"), op], Field("bytes"), never)
    for channels in (2, 4):
        with pytest.raises(PlanError, match="works on colours"):
            kernel_of(op, (8, 8, channels))
    with pytest.raises(PlanError, match="Normalize"):
        fuse([I.Decode(), I.Resize((8, 8)), I.Normalize(I.IMAGENET), op], Field("bytes"), never)


BAD: list[Callable[[], I.ImageOp]] = [
    lambda: I.TrivialAugmentWide(1),
    lambda: I.TrivialAugmentWide(31.5),  # type: ignore[arg-type]
    lambda: I.TrivialAugmentWide(interpolation="bicubic"),  # type: ignore[arg-type]
    lambda: I.TrivialAugmentWide(fill="black"),  # type: ignore[arg-type]
    lambda: I.RandAugment(-1),
    lambda: I.RandAugment(2, 31),
    lambda: I.RandAugment(2, -1),
    lambda: I.RandAugment("two"),  # type: ignore[arg-type]
    lambda: I.RandAugment(True),
    lambda: I.AutoAugment("mnist"),  # type: ignore[arg-type]
    lambda: I.AutoAugment(None),  # type: ignore[arg-type]
    lambda: I.AugMix(0),
    lambda: I.AugMix(11),
    lambda: I.AugMix(mixture_width=0),
    lambda: I.AugMix(chain_depth=1.5),  # type: ignore[arg-type]
    lambda: I.AugMix(alpha=0),
    lambda: I.AugMix(alpha=float("nan")),
    lambda: I.AugMix(all_ops="no"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("make", BAD)
def test_wrong_arguments_are_plan_errors(make: Callable[[], I.ImageOp]) -> None:
    with pytest.raises(PlanError, match="; give"):
        make()


def test_arguments_are_torchvisions() -> None:
    """Names, order and defaults; and its enumeration of policies is one of names."""
    import inspect

    for name in ("TrivialAugmentWide", "RandAugment", "AutoAugment", "AugMix"):
        ours, theirs = (inspect.signature(getattr(of, name)).parameters for of in (I, v2))
        assert list(ours) == list(theirs)
        for argument, parameter in theirs.items():
            assert ours[argument].default == getattr(parameter.default, "value", parameter.default)
    assert I.AutoAugment(v2.AutoAugmentPolicy.SVHN) == I.AutoAugment("svhn")


def test_golden() -> None:
    """The same picture, key and rows always give the same pixels."""
    path = Path(__file__).parents[1] / "golden" / "policies.json"
    assert list(hashes()) == list(CASES)
    assert hashes() == json.loads(path.read_text())
