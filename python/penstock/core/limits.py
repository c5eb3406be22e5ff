"""Limits on everything that foreign bytes could make large."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any

from penstock.core.errors import PlanError
from penstock.core.messages import quoted

#: Kernels count in 64 bits, and add some.
_MOST = 1 << 62


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The most that a record or shard may need, checked before anything is allocated.

    Each is a whole number from 1 on; what is more than 64 bits count is the same as no limit.

    Args:
        record_bytes: encoded size of one record. Default: 1 GiB.
        pixels: width × height of one image, before any crop. Default: 2²⁸.
        image_bytes: one image decoded, as its file stores the pixels (baseline JPEGs are never held whole); also what resizing it holds besides.
            Default: 1 GiB.
        unpacked_bytes: size of one shard after decompression. Default: 256 GiB.
        ratio: decompressed size over compressed size of one shard (only checked above 1 MiB), and of one image (above 256 MiB). Default: 1,100.
        values: values of one feature in one record. Default: 2²⁸.

    Raises:
        PlanError: for anything but whole numbers from 1 on.

    Example:
        limits = ps.Limits(pixels=100_000_000, record_bytes=64 << 20)
        len(ps.read("photos", limits=limits)) == 40
    """

    record_bytes: int = 1 << 30
    pixels: int = 1 << 28
    image_bytes: int = 1 << 30
    unpacked_bytes: int = 1 << 38
    ratio: int = 1_100
    values: int = 1 << 28

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            given = getattr(self, name)
            is_number = isinstance(given, Real) and not isinstance(given, bool)
            if not is_number or not given >= 1 or (given < _MOST and given != int(given)):
                raise PlanError(f"Limits: {name}={quoted(given)}; pass a whole number from 1 on")
            object.__setattr__(self, name, int(min(given, _MOST)))

    @property
    def of_image(self) -> tuple[int, int, int]:
        """What the image kernels check: pixels, image_bytes, ratio."""
        return self.pixels, self.image_bytes, self.ratio


DEFAULT_LIMITS = Limits()


def check_limits(verb: str, limits: Any) -> None:
    """PlanError for what are no limits."""
    if not isinstance(limits, Limits):
        raise PlanError(f"{verb}: limits={quoted(limits)}; pass penstock.Limits(…)")


def tightest(several: Sequence[Limits]) -> Limits:
    """The lowest of each: tightest([Limits(pixels=1), Limits(ratio=2)]) == Limits(pixels=1, ratio=2)."""
    return Limits(**{field.name: min(getattr(one, field.name) for one in several) for field in fields(Limits)})
