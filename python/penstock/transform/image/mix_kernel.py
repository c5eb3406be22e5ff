"""Ops that mix the images of a batch, run: partners, what is drawn, and soft labels; images too, but for those that a device mixes. See `mixes`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core import kernels
from penstock.core.columns.spec import Columns, Field, Ids
from penstock.core.draw_keys import DrawKeys
from penstock.core.errors import PlanError, RowError
from penstock.core.messages import quoted
from penstock.transform.family import Kernel, Site, Workspace, one_column
from penstock.transform.image.mixes import Draws, MixOp
from penstock.transform.image.nested import RandomChoice
from penstock.transform.image.op import Pair
from penstock.transform.row_generator import RowGenerator

#: A pixel has so many numbers at most.
_MOST_CHANNELS = 4


class MixKernel(Kernel):
    """See `MixUp` and `CutMix`; of a `RandomChoice` of such, each step takes one."""

    def __init__(self, op: MixOp | RandomChoice, site: Site) -> None:
        self._choice = op if isinstance(op, RandomChoice) else None
        self._ops: tuple[Any, ...] = (op,) if self._choice is None else tuple(self._choice.ops)
        first = self._ops[0]
        self._label = first.labels_of(site.fields)
        self._classes = first.classes_of(self._label, site.fields)
        images = first.images_of(site.fields, site.indices)
        self._is_first = {name: _is_first(name, site) for name in images}
        self._size = self._size_of(site)
        self.columns = (*images, self._label)
        self.fields = {name: site.fields[name] for name in images}
        self.fields |= {self._label: Field("float32", (self._classes,))}

    def _size_of(self, site: Site) -> Pair:
        """(height, width) of the images; PlanError if they have several and rectangles are cut."""
        shapes = {name: site.fields[name].shape for name in self._is_first}
        sizes = {name: shape[1:] if self._is_first[name] else shape[:2] for name, shape in shapes.items()}
        if len(set(sizes.values())) > 1 and any(one.is_by_size for one in self._ops):
            told = ", ".join(f"{name} {height} × {width}" for name, (height, width) in sizes.items())
            raise PlanError(
                f"transform: CutMix cuts one rectangle of all images of a row, and they are {told} (height × width); name those of one size, columns=[…]"
            )
        height, width = next(iter(sizes.values()))
        return int(height or 0), int(width or 0)

    def drawn(self, columns: Columns, keys: Mapping[str, DrawKeys], work: Workspace) -> dict[str, Any]:
        """See `Kernel`: what the op draws, and by how many places partners are further on."""
        ((_, key),) = keys.items()
        place, drawn, shift = self._drawn(key, work.together)
        is_of_step = not (shift and self._ops[place].per_row)
        of_op: dict[str, Any] = {name: one[0].item() if is_of_step else one for name, one in drawn.items()}
        of_op["shift"], name = shift, type(self._ops[place]).__name__
        if self._choice is None:
            return {"": {name: of_op}}
        if not shift:
            return {"": {"RandomChoice": of_op}}
        return {"": {"RandomChoice": {"chosen": place}, f"RandomChoice / {place} {name}": of_op}}

    def mixing_on_device(self, columns: frozenset[str]) -> MixKernel:
        """See `Kernel`."""
        self._is_first = {name: is_first for name, is_first in self._is_first.items() if name not in columns}
        self.columns = (*self._is_first, self._label)
        self.fields = {name: self.fields[name] for name in self.columns}
        return self

    def mixed(self, key: DrawKeys, together: int) -> Draws:
        """See `DeviceMix`."""
        place, drawn, shift = self._drawn(key, together)
        if not shift:
            return {}
        partners = _partners(len(key), together, shift).astype(np.int32)
        of_rows = {name: np.broadcast_to(one, (len(key),)) for name, one in drawn.items()}
        return {"partners": partners, **self._ops[place].of_device(of_rows)}

    def _drawn(self, key: DrawKeys, together: int) -> tuple[int, Draws, int]:
        """Which op a step takes, what that draws, and by how many places partners are further on: 0 where nothing is mixed."""
        if together < 2 or key.step is None:
            return 0, {"lam": np.ones(1)}, 0
        place = 0
        if self._choice is not None:
            place = _chosen(self._choice, key.step)
            key = DrawKeys(key.rows, kernels.mix([key.stage, place]), kernels.mix([key.step, place]))
        op = self._ops[place]
        assert key.step is not None
        of_step = RowGenerator(DrawKeys(np.zeros(1, np.int64), key.step), type(op).__name__)
        drawn = op.draws(of_step, self._size)
        shift = int(of_step.integers(1, together)[0])
        if op.per_row:
            drawn = op.draws(RowGenerator(key, type(op).__name__), self._size)
        return place, drawn, shift

    def __call__(self, columns: Columns, keys: Mapping[str, DrawKeys], work: Workspace) -> Columns:
        """See `Kernel`."""
        ((_, key),) = keys.items()
        labels = np.asarray(one_column(self._label, columns))
        rows = len(labels)
        place, drawn, shift = self._drawn(key, work.together)
        partners, op = _partners(rows, work.together, shift), self._ops[place]
        weights = op.weights(drawn, self._size) if shift else drawn["lam"]
        of_rows = {name: np.broadcast_to(one, (rows,)) for name, one in drawn.items()}
        made: Columns = {}
        for name, is_first in self._is_first.items():
            images: Any = one_column(name, columns)
            if shift:
                out = work.allocate(name, self.fields[name], rows)
                op.mix(images, partners, of_rows, is_first, out)
                made[name] = out
        made[self._label] = self._soft(labels, partners, np.broadcast_to(weights, (rows,)), work)
        return made

    def _soft(
        self, labels: npt.NDArray[Any], partners: Ids, weights: npt.NDArray[Any], work: Workspace
    ) -> npt.NDArray[np.float32]:
        """Of each row its own label by its weight, and the partner's by what that leaves."""
        own = weights.astype(np.float32)[:, None]
        others = (1.0 - weights).astype(np.float32)[:, None]
        out: npt.NDArray[np.float32] = work.allocate(self._label, self.fields[self._label], len(labels))
        if labels.ndim > 1:
            np.multiply(labels[partners], others, out=out, dtype=np.float32)
            out += np.multiply(labels, own, dtype=np.float32)
            return out
        self._check(labels)
        rows, classes = np.arange(len(labels)), labels.astype(np.int64)
        out[:] = 0
        out[rows, classes[partners]] = others[:, 0]
        out[rows, classes] += own[:, 0]
        return out

    def _check(self, labels: npt.NDArray[Any]) -> None:
        """RowError for a class that there is not."""
        wrong = np.flatnonzero((labels < 0) | (labels >= self._classes))
        if len(wrong):
            row = int(wrong[0])
            raise RowError(
                row,
                f"label {labels[row]} in column {quoted(self._label)}, of num_classes={self._classes}",
                "say how many classes there are, or repair the label",
            )


def _is_first(name: str, site: Site) -> bool:
    """Whether a column's channels come before its rows and columns: as its chain says, or, where that is not known, as its shape does."""
    return name in site.channels_first or (site.fields[name].shape[2] or 0) > _MOST_CHANNELS


def _chosen(choice: RandomChoice, step: int) -> int:
    """The place of the op that a step takes, each with its share of the probability."""
    edges = np.cumsum(choice.p or ())
    turn = RowGenerator(DrawKeys(np.zeros(1, np.int64), step), "RandomChoice").random()[0] * edges[-1]
    return int(np.searchsorted(edges, turn, side="right"))


def _partners(rows: int, together: int, shift: int) -> Ids:
    """Of each row the one `shift` places further on among its neighbours, the first following the last: _partners(4, 2, 1).tolist() == [1, 0, 3, 2]."""
    place = np.arange(rows)
    begin = place - place % together
    partners: Ids = begin + (place - begin + shift) % together
    return partners
