"""MixUp of whole batches (Zhang et al. 2018): each image blended with another one of its batch, and their labels with them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.arguments import hold_as_int, is_whole
from penstock.core.columns.spec import Columns, Field, Ids, Spec
from penstock.core.draw_keys import DrawKeys
from penstock.core.errors import PlanError, RowError
from penstock.core.messages import quoted
from penstock.transform.family import Kernel, Site, Workspace, one_column
from penstock.transform.image.op import ImageOp, check, set_fields
from penstock.transform.row_generator import RowGenerator

#: Bytes of images that are blended at a time: with what they are blended with, they stay in a core's cache.
_PIECE_BYTES = 1 << 18

_MIXED = ("uint8", "float32")


@dataclass(frozen=True)
class MixUp(ImageOp):
    """Images blended with others of their batch, λ × image + (1 - λ) × other, and labels with them: `batch(256).transform(MixUp(0.2, num_classes=1000))`.

    λ is drawn from Beta(alpha, alpha) for each step, as torchvision v2's MixUp does for each batch. An image's partner is one of the `among` neighbouring rows of the global batch, a
    number of places further on, which is drawn for each step as well. Both are functions of seed, epoch and step: batches are the same on any number of ranks. Labels become float32 of
    shape (rows, num_classes). Images of float32 are blended in float32; those of uint8 too, and then rounded to the nearest number (halves to the even one).

    The last batch of an epoch, if it is short, is not blended (λ is 1), since ranks have unequal parts of it; its labels have the same shape.

    Args:
        alpha: of the Beta distribution, above 0. Default 1.0.
        num_classes: how many classes there are.
        labels: the column of class numbers, integers from 0 on. By default the one named "labels", or else the first with "label" in its name, as torchvision's
            `labels_getter="default"` finds it; case does not matter.
        columns: the columns of images. By default all of three axes a row that are uint8 or float32, but for masks of `Decode(mode="P")`.
        among: rows of the global batch among which partners are: it divides the rows that each rank has. By default the largest of 8, 4 and 2 that divides the batch, or the least divisor
            of an odd one.

    Returns:
        The op, for `Dataset.transform` behind `batch`.

    Raises:
        PlanError: for arguments that make no sense, and by `transform` or the loader for a column that is not there or of another type, or ranks that have too few rows.

    Example:
        import penstock as ps

        mix_up = ps.image.MixUp(0.2, num_classes=1000)  # ps.read("photos").transform(image=[…]).batch(256).transform(mix_up)
    """

    is_random = on_batch = True
    drawn_by = ("alpha",)

    alpha: float = 1.0
    num_classes: int | None = field(default=None, kw_only=True)
    labels: str | None = field(default=None, kw_only=True)
    columns: Sequence[str] | None = field(default=None, kw_only=True)
    among: int | None = field(default=None, kw_only=True)

    def settle(self) -> None:
        """See `ImageOp`."""
        is_number = isinstance(self.alpha, (int, float, np.floating, np.integer)) and not isinstance(self.alpha, bool)
        check(self, is_number and 0 < self.alpha < math.inf, "an alpha above 0")
        set_fields(self, alpha=float(self.alpha))
        check(self, is_whole(self.num_classes) and self.num_classes >= 1, "num_classes=, a whole number from 1 on")  # type: ignore[operator]  # a whole number
        check(
            self, self.among is None or (is_whole(self.among) and self.among >= 1), "among=, a whole number from 1 on"
        )
        check(self, self.labels is None or isinstance(self.labels, str), "labels=, the name of a column")
        hold_as_int(self, "num_classes", "among")
        if self.columns is not None:
            names = (self.columns,) if isinstance(self.columns, str) else tuple(self.columns)
            check(self, bool(names) and all(isinstance(name, str) for name in names), "columns=, names of columns")
            set_fields(self, columns=names)

    def output(self, name: str, given: Spec) -> Spec:
        """See `Op`: what becomes of the labels."""
        return {**given, self.labels_of(given): Field("float32", (self.num_classes,))}

    def labels_of(self, given: Spec) -> str:
        """The column of labels; PlanError if there is none."""
        whole = [
            name
            for name, field in given.items()
            if field.is_fixed and field.shape == () and field.numpy_dtype.kind in "iu"
        ]
        named = [name for name in whole if name.lower() == "labels"] + [
            name for name in whole if "label" in name.lower()
        ]
        found = self.labels if self.labels is not None else next(iter(named), None)
        if found in whole:
            return str(found)
        has = f"no column {quoted(found or 'label')} of class numbers"
        if found is not None and found in given:
            has = f"column {quoted(found)} is {given[found]}"
        raise PlanError(
            f"{self}: {has}; name the column of class numbers, labels={quoted(whole[0] if whole else '…')}: whole numbers are {', '.join(whole) or 'in no column'}"
        )

    def images_of(self, given: Spec, indices: frozenset[str]) -> tuple[str, ...]:
        """The columns of images; PlanError if there are none, or one cannot be blended."""
        pixel_axes = 3
        fits = [
            name
            for name, field in given.items()
            if field.is_fixed and len(field.shape) == pixel_axes and field.dtype in _MIXED and name not in indices
        ]
        for name in self.columns or ():
            if name not in fits:
                has = "indices, which cannot be blended" if name in indices else str(given.get(name, "not there"))
                raise PlanError(
                    f"{self}: column {quoted(name)} is {has}; name columns of images, uint8 or float32 of one size"
                )
        if not fits:
            raise PlanError(
                f"{self}: no column of images, uint8 or float32 of one size: there are {', '.join(f'{name} ({field})' for name, field in given.items())}; transform them before"
            )
        return tuple(self.columns or fits)


class MixUpKernel(Kernel):
    """See `MixUp`."""

    def __init__(self, op: MixUp, site: Site) -> None:
        self._op, self._label = op, op.labels_of(site.fields)
        self._images = op.images_of(site.fields, site.indices)
        self.columns = (*self._images, self._label)
        self.fields = {name: site.fields[name] for name in self._images}
        self.fields |= {self._label: Field("float32", (op.num_classes,))}

    def drawn(self, columns: Columns, keys: Mapping[str, DrawKeys], work: Workspace) -> dict[str, Any]:
        """See `Kernel`: λ, and by how many places partners are further on."""
        return {"": {"MixUp": self._drawn(keys, work)}}

    def _drawn(self, keys: Mapping[str, DrawKeys], work: Workspace) -> dict[str, Any]:
        ((_, key),) = keys.items()
        if work.together < 2 or key.step is None:
            return {"lam": 1.0, "shift": 0}
        of_step = RowGenerator(DrawKeys(np.zeros(1, np.int64), key.step), "MixUp")
        lam = float(of_step.beta(self._op.alpha, self._op.alpha)[0])
        return {"lam": lam, "shift": int(of_step.integers(1, work.together)[0])}

    def __call__(self, columns: Columns, keys: Mapping[str, DrawKeys], work: Workspace) -> Columns:
        """See `Kernel`."""
        drawn = self._drawn(keys, work)
        labels = np.asarray(one_column(self._label, columns))
        partners, lam = _partners(len(labels), work.together, drawn["shift"]), drawn["lam"]
        made: Columns = {}
        for name in self._images:
            images: Any = one_column(name, columns)
            if drawn["shift"]:
                out = work.allocate(name, self.fields[name], len(images))
                _blend(images, partners, lam, out)
                made[name] = out
        made[self._label] = self._one_hot(labels, partners, lam, work)
        return made

    def _one_hot(self, labels: npt.NDArray[Any], partners: Ids, lam: float, work: Workspace) -> npt.NDArray[np.float32]:
        wrong = np.flatnonzero((labels < 0) | (labels >= self._op.num_classes))
        if len(wrong):
            row = int(wrong[0])
            raise RowError(
                row,
                f"label {labels[row]} in column {quoted(self._label)}, of num_classes={self._op.num_classes}",
                "say how many classes there are, or repair the label",
            )
        out: npt.NDArray[np.float32] = work.allocate(self._label, self.fields[self._label], len(labels))
        out[:] = 0
        rows = np.arange(len(labels))
        out[rows, labels[partners]] = np.float32(1.0 - lam)
        out[rows, labels] += np.float32(lam)
        return out


def _partners(rows: int, together: int, shift: int) -> Ids:
    """Of each row the one `shift` places further on among its neighbours, the first following the last: _partners(4, 2, 1).tolist() == [1, 0, 3, 2]."""
    place = np.arange(rows)
    begin = place - place % together
    partners: Ids = begin + (place - begin + shift) % together
    return partners


def _blend(images: npt.NDArray[Any], partners: Ids, lam: float, out: npt.NDArray[Any]) -> None:
    """λ × image + (1 - λ) × partner, each product and the sum rounded to float32; uint8 to the nearest at the end."""
    rows = max(1, _PIECE_BYTES // max(1, images[:1].nbytes))
    mine, other = np.float32(lam), np.float32(1.0 - lam)
    is_float = images.dtype == np.float32
    for begin in range(0, len(images), rows):
        end = begin + rows
        blended = np.multiply(images[partners[begin:end]], other, dtype=np.float32)
        blended += np.multiply(images[begin:end], mine, dtype=np.float32)
        out[begin:end] = blended if is_float else np.rint(blended, out=blended)
