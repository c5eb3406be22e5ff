"""What each op of a chain does to one image: its beginnings run one after another, and draw as the whole chain does, since an op draws by its own number."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.columns.op_step import MOST_PIXELS, OpStep, thinned
from penstock.core.columns.rows import take_rows
from penstock.core.columns.spec import Column, Field, Ids
from penstock.core.errors import PlanError, RowError
from penstock.core.images.by_library import readable_head
from penstock.core.kernels import BoxColumn
from penstock.core.limits import Limits
from penstock.core.messages import quoted
from penstock.transform.image.kernel import ImageKernel, chain_of
from penstock.transform.image.numbers import ToLayout
from penstock.transform.image.op import Chain

#: By op and parameter, a number a row.
Drawn: TypeAlias = Mapping[str, Mapping[str, npt.NDArray[np.float64]]]
Size: TypeAlias = tuple[int, int]
#: What goes along with an image, by column, behind ops that are compiled.
Beside: TypeAlias = Callable[[ImageKernel], Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class ChainSteps:
    """The beginnings of a chain.

    numbers: of its ops. labels: of these, and of those inside of them, by number. source: as the chain gets it. whole: all of it, compiled. boxes: those of the
    one row that there is, where an op asks for them. beside: what goes along with that row behind some of the ops, compiled.
    """

    ops: Sequence[Any]
    numbers: Sequence[int]
    labels: Mapping[int, str]
    source: Field
    channels_first: bool
    limits: Limits
    whole: ImageKernel
    boxes: BoxColumn | None = None
    beside: Beside | None = None

    def of(self, column: Column, samples: Ids, key: int, drawn: Drawn) -> list[list[OpStep]]:
        """For each row, what stands behind each op; but for those that only order axes."""
        places = [place for place, op in enumerate(self.ops) if not isinstance(op, ToLayout)]
        return [
            [self._step(place, column, samples, key, drawn, row) for place in places] for row in range(len(samples))
        ]

    def _step(self, place: int, column: Column, samples: Ids, key: int, drawn: Drawn, row: int) -> OpStep:
        name = self.labels[self.numbers[place]]
        step = OpStep(op=name, given=quoted(self.ops[place]), drawn=_drawn_by(name, drawn, row))
        try:
            return self._seen(step, place, take_rows(column, np.array([row])), samples[row : row + 1], key)
        except RowError as error:
            return replace(step, note=error.found)
        except (PlanError, ValueError) as error:
            return replace(step, note=str(error))

    def _seen(self, step: OpStep, place: int, row: Column, sample: Ids, key: int) -> OpStep:
        chain = self._chain(place + 1)
        height, width = self._size_behind(place, row, sample, key)
        step = replace(step, size=(height, width), dtype=chain.numbers.dtype)
        if height * width > MOST_PIXELS:
            return replace(step, note="too many pixels to be looked at")
        kernel = ImageKernel(chain, height, width, self.limits, channels_first=self.channels_first)
        out = np.empty((1, *(axis or 0 for axis in kernel.field.shape)), kernel.field.numpy_dtype)
        kernel(row, sample, key=key, out=out, threads=1, boxes=self.boxes)
        pixels = thinned(np.moveaxis(out[0], 0, 2) if chain.layout == "NCHW" else out[0])
        columns = {} if self.beside is None else self.beside(kernel)
        return replace(step, pixels=_wider(pixels, chain.numbers.dtype).copy(), columns=columns)

    def _chain(self, ops: int) -> Chain:
        source = self.source
        if self.channels_first and source.dtype != "bytes":
            source = replace(source, shape=(*source.shape[1:], *source.shape[:1]))
        return chain_of(self.ops[:ops], source, self.numbers[:ops])

    def _size_behind(self, place: int, row: Column, sample: Ids, key: int) -> Size:
        """(height, width) of a row behind an op: where the next one of the whole chain meets it. One that looks at boxes has said how large a part it takes."""
        chain, whole = self._chain(place + 1), self._chain(len(self.ops))
        if len(chain.geometry) == len(whole.geometry):
            return self.whole.size
        asking = [at for at in range(place + 1) if self.ops[at].asks_for_boxes]
        if asking:
            return self._size_behind_boxes(asking[-1], place, row, sample, key)
        return _size_before(self.whole, len(chain.geometry), self._header(row), sample, key)

    def _size_behind_boxes(self, asked: int, place: int, row: Column, sample: Ids, key: int) -> Size:
        drawn = self.whole.drawn(row, sample, key, self.boxes).get(self.numbers[asked], {})
        if "height" in drawn and not np.isnan(drawn["height"][0]):
            size = int(drawn["height"][0]), int(drawn["width"][0])
        else:  # the image stayed as it was
            size = self._size_behind(asked - 1, row, sample, key) if asked else self._size_at_start(row)
        ops, numbers = self.ops[asked + 1 :], self.numbers[asked + 1 :]
        if place == asked:
            return size
        source = Field("uint8", (*size, self._chain(asked + 1).channels))
        chain = chain_of(ops, source, numbers)
        behind = len(chain_of(ops[: place - asked], source, numbers[: place - asked]).geometry)
        return _size_before(ImageKernel(chain, *size, self.limits), behind, _head_of(size), sample, key)

    def _size_at_start(self, row: Column) -> Size:
        height, width = self.whole.sizes_at_start(row)[0].tolist()
        return height, width

    def _header(self, row: Column) -> bytes:
        """A file that says how large a row is: its own, or for pixels the head of a PNG."""
        if isinstance(row, np.ndarray):
            return _head_of(self._size_at_start(row))
        value = row[0]
        return readable_head(bytes((value.as_py() or b"") if isinstance(value, pa.Scalar) else value))


def _head_of(size: Size) -> bytes:
    """What a PNG of such a size begins with."""
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIIBBBBBI", 13, b"IHDR", size[1], size[0], 8, 2, 0, 0, 0, 0)


def _size_before(kernel: ImageKernel, place: int, file: bytes, sample: Ids, key: int) -> Size:
    """(height, width) of an image where an op of a chain meets it."""
    data, at, length = np.frombuffer(file, np.uint8), np.zeros(1, np.int64), np.array([len(file)])
    found = kernel.program.sizes_before([place], [data], at, at, length, np.ascontiguousarray(sample), key)
    return int(found[0]), int(found[1])


def _drawn_by(name: str, drawn: Drawn, row: int) -> dict[str, float]:
    """What an op drew for a row, and those inside of it under their own names; nothing of what a row has not drawn."""
    found = dict[str, float]()
    for op, parameters in drawn.items():
        if op != name and not op.startswith(f"{name} / "):
            continue
        inner = op[len(name) + 3 :]
        for parameter, values in parameters.items():
            if not np.isnan(values[row]):
                found[f"{inner} {parameter}" if inner else parameter] = float(values[row])
    return found


def _wider(pixels: npt.NDArray[Any], dtype: str) -> npt.NDArray[Any]:
    """bfloat16, which is held as its bits, as float32."""
    return (pixels.astype(np.uint32) << 16).view(np.float32) if dtype == "bfloat16" else pixels
