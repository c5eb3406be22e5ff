"""What a column says of the pictures in another one: boxes, masks or points that are drawn over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

OverlayKind: TypeAlias = Literal["boxes", "mask", "points"]


@dataclass(frozen=True, kw_only=True)
class Overlay:
    """A column that lies over the pictures of the column `of`, in their pixels.

    "boxes": (boxes, 4) numbers, of which `format` says what they are, and `labels` names columns with a value for each box.
    "mask": classes (height, width), a mask each of instances (instances, height, width), or an encoded file. "points": (points, 2) or (objects, points, 2).
    """

    kind: OverlayKind
    of: str
    format: str = "XYXY"
    labels: tuple[str, ...] = ()
