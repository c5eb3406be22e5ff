"""What lies along with images, run beside their chains: see `along` and `boxes`.

image ────────────► size, draw ──► pixels
│      ▲
│      └ boxes, where an op asks for them
boxes, points, masks ─┴─► moved as the image's chain moves pixels ──► labels lose what boxes lose
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.columns.op_step import OpStep
from penstock.core.columns.rows import take_rows
from penstock.core.columns.spec import Columns, Spec
from penstock.core.draw_keys import DrawKeys
from penstock.core.kernels import BoxColumn
from penstock.transform.family import Chains, DeviceKernel, Drawing, Kernel, Site, Workspace, one_column
from penstock.transform.image.along import KeyPoints, Mask
from penstock.transform.image.along_columns import BoxChain, MaskChain, MovedImages, PointChain
from penstock.transform.image.along_rows import Faults, NumberRows
from penstock.transform.image.boxes import Boxes, boxes_beside
from penstock.transform.image.kernel import ImageKernel


class ImageChains(Protocol):
    """The chains of the images."""

    columns: tuple[str, ...]
    fields: Spec

    def on_device(self, columns: frozenset[str]) -> tuple[Any, Mapping[str, DeviceKernel]]: ...  # noqa: D102

    def counts(self) -> Counter[str]: ...  # noqa: D102

    def sizes(self, drawing: Drawing) -> dict[int, npt.NDArray[np.uint32]]: ...  # noqa: D102

    def kernel_of(self, name: str) -> ImageKernel: ...  # noqa: D102

    def asks_for_boxes(self, name: str) -> bool: ...  # noqa: D102

    def __call__(  # noqa: D102
        self,
        columns: Columns,
        keys: Mapping[str, DrawKeys],
        work: Workspace,
        boxes: Mapping[str, BoxColumn] = {},
    ) -> Columns: ...

    def steps(  # noqa: D102
        self,
        columns: Columns,
        keys: Mapping[str, DrawKeys],
        work: Workspace,
        boxes: Mapping[str, BoxColumn] = {},
        beside: Mapping[str, Callable[[ImageKernel], Mapping[str, Any]]] = {},
    ) -> dict[str, list[list[OpStep]]]: ...

    def drawn(  # noqa: D102
        self,
        columns: Columns,
        keys: Mapping[str, DrawKeys],
        work: Workspace,
        boxes: Mapping[str, BoxColumn] = {},
    ) -> dict[str, Any]: ...


class AlongKernel(Kernel):
    """Chains of images, and of what lies along with them. asked: the images whose chains ask for boxes, with the columns of these."""

    def __init__(self, images: ImageChains, chains: Chains, site: Site) -> None:
        self._images = images
        self._moving = {name: images.kernel_of(name) for name in images.fields}  # whole, whatever a device does of them
        self._boxes = {name: BoxChain(name, ops, site) for name, ops in chains.items() if isinstance(ops[0], Boxes)}
        self._points = {
            name: PointChain(name, ops[0], site) for name, ops in chains.items() if isinstance(ops[0], KeyPoints)
        }
        self._masks = {
            name: MaskChain(name, ops, images.kernel_of(ops[0].of), site)
            for name, ops in chains.items()
            if isinstance(ops[0], Mask)
        }
        asking = [name for name in images.fields if images.asks_for_boxes(name)]
        self._asked = {name: boxes_beside(name, chains)[0] for name in asking}
        needed = [*images.columns, *(column for name, ops in chains.items() for column in ops[0].needs(name))]
        self.columns = tuple(dict.fromkeys(needed))
        self.fields = {**images.fields}
        self.fields |= {name: mask.field for name, mask in self._masks.items()}
        self.fields |= {name: points.field for name, points in self._points.items()}
        for boxes in self._boxes.values():
            self.fields |= boxes.fields({**site.fields, **self.fields})

    def counts(self) -> Counter[str]:
        """See `Kernel`."""
        return self._images.counts()

    def on_device(self, columns: frozenset[str]) -> tuple[Kernel | None, Mapping[str, DeviceKernel]]:
        """See `Kernel`: what lies along goes where the whole chain goes, on the host. Pixels that are delivered as they are stay with it."""
        images, ends = self._images.on_device(columns)
        if images is None:
            return self, {}
        self._images = images
        self.fields |= images.fields
        return self, ends

    def sizes(self, drawing: Drawing) -> dict[int, npt.NDArray[np.uint32]]:
        """(height, width) of every image where ops of one chain meet it that draw by the size."""
        return self._images.sizes(drawing)

    def drawn(self, columns: Columns, keys: Mapping[str, DrawKeys], work: Workspace) -> dict[str, Any]:
        """See `Kernel`."""
        return self._images.drawn(columns, keys, work, self._asked_for(self._box_rows(columns, Faults())))

    def steps(self, columns: Columns, keys: Mapping[str, DrawKeys], work: Workspace) -> dict[str, list[list[OpStep]]]:
        """See `Kernel`: with each image, what goes along with it."""
        found = dict[str, list[list[OpStep]]]()
        for row in range(len(next(iter(keys.values())))):
            one = {name: take_rows(columns[name], np.array([row])) for name in self.columns}
            own = {name: key.part(row, row + 1) for name, key in keys.items()}
            asked = self._asked_for(self._box_rows(one, Faults()))
            beside = {name: partial(self._beside, name, one, own[name], asked) for name in self._images.fields}
            for name, steps in self._images.steps(one, own, work, asked, beside).items():
                found.setdefault(name, []).extend(steps)
        return found

    def _beside(
        self, of: str, columns: Columns, keys: DrawKeys, asked: Mapping[str, BoxColumn], kernel: ImageKernel
    ) -> dict[str, Any]:
        """What goes along with the one image of `columns` behind ops that are compiled."""
        work = Workspace(allocate=lambda _, field, rows: np.empty((rows, *field.shape), field.numpy_dtype))
        images = MovedImages(kernel.program, kernel.sizes_at_start(columns[of]), keys.rows, keys.stage, asked.get(of))
        made: Columns = {}
        for name, points in self._points.items():
            if points.of == of:
                made[name] = points(points.rows(columns[name]), images, work)
        for name, mask in self._masks.items():
            if mask.of == of:
                made[name] = mask.for_images(kernel)(columns[name], images, work)
        rows = self._box_rows(columns, Faults())
        for name, box in self._boxes.items():
            if box.of == of:
                made.update(box(rows[name], images, {**columns, **made}, work))
        return {name: column[0].as_py() if isinstance(column, pa.Array) else column[0] for name, column in made.items()}

    def __call__(self, columns: Columns, keys: Mapping[str, DrawKeys], work: Workspace) -> Columns:
        """See `Kernel`: a row that is bad in one column is bad as a whole, and its first fault is told."""
        bad = Faults()
        boxes = self._box_rows(columns, bad)
        points = {name: chain.rows(one_column(name, columns)) for name, chain in self._points.items()}
        for rows in points.values():
            bad.update(rows.bad | bad)
        if bad and work.bad is None:
            raise bad[min(bad)]
        gathering = replace(work, bad=None if work.bad is None else lambda errors: _gather(bad, errors))
        asked = self._asked_for(boxes)
        made = self._images(columns, keys, gathering, asked)

        def moved(of: str) -> MovedImages:
            kernel = self._moving[of]
            sizes = kernel.sizes_at_start(columns[of])
            return MovedImages(kernel.program, sizes, keys[of].rows, keys[of].stage, asked.get(of))

        for name, mask in self._masks.items():
            made[name] = mask(one_column(name, columns), moved(mask.of), gathering)
        for name, chain in self._points.items():
            made[name] = chain(points[name], moved(chain.of), gathering)
        for name, box in self._boxes.items():
            made.update(box(boxes[name], moved(box.of), {**columns, **made}, gathering))
        if bad and work.bad is not None:
            work.bad([bad[row] for row in sorted(bad)])
        return made

    def _box_rows(self, columns: Columns, bad: Faults) -> dict[str, NumberRows]:
        """The boxes of each column, without those of bad rows, which are added to `bad`."""
        found = {}
        for name, chain in self._boxes.items():
            sizes = self._moving[chain.of].sizes_at_start(one_column(chain.of, columns))
            found[name] = chain.rows(one_column(name, columns), sizes)
            bad.update(found[name].bad | bad)
        return found

    def _asked_for(self, boxes: Mapping[str, NumberRows]) -> dict[str, BoxColumn]:
        return {name: self._boxes[column].native(boxes[column]) for name, column in self._asked.items()}


def _gather(bad: Faults, errors: Any) -> None:
    for error in errors:
        bad.setdefault(error.row, error)
