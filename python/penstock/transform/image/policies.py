"""Policies: random steps of a list, changes of colours and warps. Names, defaults and the order of arguments are torchvision v2's; `timm` is timm's, by its string."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Any, Literal

from penstock.core.arguments import is_one_of
from penstock.transform.image.colour import ColourOp
from penstock.transform.image.margins import Fill
from penstock.transform.image.op import Chain, check, set_fields
from penstock.transform.image.warps import WarpInterpolation, WarpOp

PolicyName = Literal["imagenet", "cifar10", "svhn"]

#: What steps do: the place of a name is the number that `loader.draws` tells as "op_1", "op_2", …; see `policy.Kind` in native code.
STEPS = (
    "Identity",
    "ShearX",
    "ShearY",
    "TranslateX",
    "TranslateY",
    "Rotate",
    "Brightness",
    "Color",
    "Contrast",
    "Sharpness",
    "Posterize",
    "Solarize",
    "AutoContrast",
    "Equalize",
    "Invert",
    "SolarizeAdd",
)

_MOST_STEPS = 100
_MOST_BINS = 10_000


class PolicyOp(ColourOp, WarpOp):
    """An op that chooses among steps: on RGB and grey images, whose size stays."""

    is_random = moves_pixels = is_geometric = True
    draws_by_size = True


def _check_whole(op: object, name: str, least: int, most: int) -> None:
    value = getattr(op, name)
    is_whole = not isinstance(value, bool) and int(value) == value
    check(op, is_whole and least <= value <= most, f"{name} as a whole number from {least:,} to {most:,}")
    set_fields(op, **{name: int(value)})


@dataclass(frozen=True)
class TrivialAugmentWide(PolicyOp):
    """One random step of random strength: TrivialAugment (Müller and Hutter 2021) with its wide ranges.

    Fourteen steps are equally likely: none, shears, translations, rotation, brightness, colour, contrast, sharpness, posterize, solarize, autocontrast and equalize. Magnitudes
    are torchvision v2's, and so are the pixels of each, as those of `ColorJitter`, `RandomEqualize` and `RandomAffine` are. `loader.draws` tells the step's place in that list as
    "op_1", and "magnitude_1".

    Args:
        num_magnitude_bins: how many magnitudes there are, from 2 on. Default: 31.
        interpolation: of warps: "nearest", the default, or "bilinear".
        fill: what stands outside of warped images, as in `RandomAffine`. Default: None.

    Raises:
        PlanError: for another number of bins, and for pixels that are neither RGB nor grey.

    Example:
        ps.read("photos").transform(image=[ps.image.Decode(), ps.image.RandomResizedCrop(64), ps.image.TrivialAugmentWide()])
    """

    draws_by_size = False
    drawn_by = ("num_magnitude_bins",)

    num_magnitude_bins: int = 31
    interpolation: WarpInterpolation = "nearest"
    fill: Fill | None = None

    def settle(self) -> None:
        """See `ImageOp`."""
        super().settle()
        _check_whole(self, "num_magnitude_bins", 2, _MOST_BINS)


@dataclass(frozen=True)
class RandAugment(PolicyOp):
    """Random steps of one strength: RandAugment (Cubuk et al. 2020). Steps and pixels are those of `TrivialAugmentWide`, with narrower ranges.

    `loader.draws` tells the first twelve steps: "op_1", "magnitude_1", "op_2", …

    Args:
        num_ops: how many steps; a step may come twice. Default: 2.
        magnitude: which of the magnitudes, from 0 on. Default: 9.
        num_magnitude_bins: how many magnitudes there are, from 2 on. Default: 31.
        interpolation: of warps: "nearest", the default, or "bilinear".
        fill: what stands outside of warped images, as in `RandomAffine`. Default: None.

    Raises:
        PlanError: for a magnitude that is none of the bins, and for pixels that are neither RGB nor grey.

    Example:
        ps.read("photos").transform(image=[ps.image.Decode(), ps.image.RandomResizedCrop(64), ps.image.RandAugment()])
    """

    drawn_by = ("num_ops", "magnitude", "num_magnitude_bins")

    num_ops: int = 2
    magnitude: int = 9
    num_magnitude_bins: int = 31
    interpolation: WarpInterpolation = "nearest"
    fill: Fill | None = None

    def settle(self) -> None:
        """See `ImageOp`."""
        super().settle()
        _check_whole(self, "num_ops", 0, _MOST_STEPS)
        _check_whole(self, "num_magnitude_bins", 2, _MOST_BINS)
        _check_whole(self, "magnitude", 0, self.num_magnitude_bins - 1)


@dataclass(frozen=True)
class AutoAugment(PolicyOp):
    """One of 25 pairs of steps that were found for a data set: AutoAugment (Cubuk et al. 2019). Steps and pixels are those of `RandAugment`, and invert.

    `loader.draws` tells the pair as "policy", and "op_1", "magnitude_1", "op_2" and "magnitude_2" of steps that were done.

    Args:
        policy: "imagenet", the default, "cifar10" or "svhn"; also torchvision's `AutoAugmentPolicy`.
        interpolation: of warps: "nearest", the default, or "bilinear".
        fill: what stands outside of warped images, as in `RandomAffine`. Default: None.

    Raises:
        PlanError: for another policy, and for pixels that are neither RGB nor grey.

    Example:
        ps.read("photos").transform(image=[ps.image.Decode(), ps.image.RandomResizedCrop(64), ps.image.AutoAugment("cifar10")])
    """

    drawn_by = ("policy",)

    policy: PolicyName = "imagenet"
    interpolation: WarpInterpolation = "nearest"
    fill: Fill | None = None

    def settle(self) -> None:
        """See `ImageOp`."""
        super().settle()
        set_fields(self, policy=getattr(self.policy, "value", self.policy))
        check(self, is_one_of(self.policy, ("imagenet", "cifar10", "svhn")), 'policy "imagenet", "cifar10" or "svhn"')


@dataclass(frozen=True)
class AugMix(PolicyOp):
    """The image blended with what several rows of random steps make of it: AugMix (Hendrycks et al. 2020).

    Weights, steps and magnitudes are distributed as torchvision v2's, and blends are cut off to bytes as there. `loader.draws` tells "weight", the image's own, "weight_1" and
    "depth_1" of each row, and the steps of all rows, the first twelve, as `RandAugment` does. Boxes and points of the image stay where they are.

    Args:
        severity: how many of ten magnitudes are drawn from, the weakest first. Default: 3.
        mixture_width: how many rows of steps. Default: 3.
        chain_depth: how many steps each has; 0 or less: one to three at random. Default: -1.
        alpha: of the Dirichlet and Beta distributions of the weights. Default: 1.
        all_ops: whether brightness, colour, contrast and sharpness are among the steps. Default: True.
        interpolation: of warps: "bilinear", the default, or "nearest".
        fill: what stands outside of warped images, as in `RandomAffine`. Default: None.

    Raises:
        PlanError: for numbers outside of these ranges, and for pixels that are neither RGB nor grey.

    Example:
        ps.read("photos").transform(image=[ps.image.Decode(), ps.image.RandomResizedCrop(64), ps.image.AugMix()])
    """

    drawn_by = ("severity", "mixture_width", "chain_depth", "alpha", "all_ops")
    says_where = False

    severity: int = 3
    mixture_width: int = 3
    chain_depth: int = -1
    alpha: float = 1.0
    all_ops: bool = True
    interpolation: WarpInterpolation = "bilinear"
    fill: Fill | None = None

    def settle(self) -> None:
        """See `ImageOp`."""
        super().settle()
        _check_whole(self, "severity", 1, 10)
        _check_whole(self, "mixture_width", 1, _MOST_STEPS)
        _check_whole(self, "chain_depth", -_MOST_STEPS, _MOST_STEPS)
        check(self, 1e-6 <= self.alpha <= 1e6, "alpha above 0")


#: A section of timm's strings: its letters, and the number.
_SECTION = re.compile(r"(mstd|mmax|inc|m|n|p)(\d+(?:\.\d*)?|inf)")

#: Sections of whole numbers.
_WHOLE = ("m", "mmax", "n", "inc")


@dataclass(frozen=True, repr=False)
class TimmAugment(PolicyOp):
    """What `timm` returns: RandAugment as timm has it.

    Args:
        config: see `timm`.
        interpolation: see `timm`.
        fill: see `timm`.

    Raises:
        PlanError: see `timm`.

    Example:
        ps.image.timm("rand-m9-n3") == ps.image.TimmAugment("rand-m9-n3")
    """

    drawn_by = ("config",)

    config: str
    interpolation: WarpInterpolation = "bilinear"
    fill: Fill | None = (124, 116, 104)

    def __repr__(self) -> str:
        return f"timm({self.config!r}, {self.interpolation!r}, {self.fill!r})"

    def settle(self) -> None:
        """See `ImageOp`."""
        super().settle()
        wanted = 'a string as "rand-m9-mstd0.5-inc1": "rand", and any of m, n, p, mstd, mmax and inc with a number'
        check(self, isinstance(self.config, str) and self.config.split("-")[0] == "rand", wanted)
        sections = [_SECTION.fullmatch(section) for section in self.config.split("-")[1:]]
        check(self, all(sections), wanted)
        check(
            self,
            all(one[2].isdigit() for one in sections if one and one[1] in _WHOLE),
            f"{wanted}, whole but for p and mstd",
        )
        numbers = self._numbers()
        check(self, numbers["layers"] <= _MOST_STEPS, f"{_MOST_STEPS} steps at most")
        check(self, 0 <= numbers["p"] <= 1, "p from 0 to 1")

    def _numbers(self) -> dict[str, Any]:
        """What the string says, with timm's defaults."""
        said = {one[1]: float(one[2]) for one in _SECTION.finditer(self.config)}
        deviation = said.get("mstd", 0.0)
        return {
            "magnitude": said.get("m", 10.0),
            "deviation": math.inf if deviation > _UNIFORM else deviation,
            "most": said.get("mmax", 0.0) or 10.0,
            "layers": said.get("n", 2.0),
            "p": said.get("p", 0.5),
            "is_increasing": bool(said.get("inc", 0.0)),
        }

    def extend(self, chain: Chain) -> Chain:
        """The chain with this op at its end; PlanError for pixels of other modes, and for a fill of other channels."""
        extended = super().extend(chain)
        *before, (number, described) = extended.geometry
        described = {key: value for key, value in described.items() if key != "config"} | self._numbers()
        return replace(extended, geometry=(*before, (number, described)))


#: Deviations above it make levels uniform.
_UNIFORM = 100


def timm(
    config: str, interpolation: WarpInterpolation = "bilinear", fill: Fill | None = (124, 116, 104)
) -> TimmAugment:
    """RandAugment as timm has it, by its string, which published recipes name: its 15 steps, their levels and probabilities (`rand_augment_transform`).

    Pixels are torchvision's of tensors, where timm's are Pillow's. Equal are invert, posterize, solarize, and equalize; brightness, colour, contrast, sharpness and autocontrast are up to 2
    levels off, since grey and blends are cut off, not rounded. Warps are bilinear or "nearest"; timm's recipes take bicubic, or bilinear and bicubic by turns. `loader.draws` tells the
    steps as `RandAugment` does, and as "magnitude_1" what timm makes of the level: degrees, a factor, bits, a threshold, a tangent, a share of the side.

    Args:
        config: "rand", and sections behind dashes: m, the magnitude (10 if it is missing); n, how many steps (2); p, the probability of each (0.5); mstd, the magnitude's deviation
            (0; above 100 all up to the magnitude are equally likely); mmax, the greatest magnitude (10); inc1, where all steps are stronger at greater ones. Sets of steps (t…) are not there.
        interpolation: of warps: "bilinear", the default, or "nearest".
        fill: what stands outside of warped images, as in `RandomAffine`. Default: ImageNet's mean, which timm's recipes take; one number for grey images.

    Raises:
        PlanError: for another string, and for pixels that are neither RGB nor grey.

    Example:
        I = ps.image
        ps.read("photos").transform(image=[I.Decode(), I.RandomResizedCrop(64), I.timm("rand-m9-mstd0.5-inc1")])
    """
    return TimmAugment(config, interpolation, fill)
