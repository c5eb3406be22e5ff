"""What each op of a chain does to one image: its beginnings run one after another, and draw as the whole chain does, since an op draws by its own number."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.columns.op_step import MOST_PIXELS, OpStep, thinned
from penstock.core.columns.rows import take_rows
from penstock.core.columns.spec import Column, Field, Ids
from penstock.core.errors import PlanError, RowError
from penstock.core.limits import Limits
from penstock.core.messages import quoted
from penstock.transform.image.kernel import ImageKernel, chain_of
from penstock.transform.image.numbers import ToLayout
from penstock.transform.image.op import Chain

#: By op and parameter, a number a row.
Drawn: TypeAlias = Mapping[str, Mapping[str, npt.NDArray[np.float64]]]
Size: TypeAlias = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class ChainSteps:
    """The beginnings of a chain. numbers: of its ops. labels: of these, and of those inside of them, by number. source: as the chain gets it. whole: all of it, compiled."""

    ops: Sequence[Any]
    numbers: Sequence[int]
    labels: Mapping[int, str]
    source: Field
    channels_first: bool
    limits: Limits
    whole: ImageKernel

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
        height, width = self._size_behind(chain, row, sample, key)
        step = replace(step, size=(height, width), dtype=chain.numbers.dtype)
        if height * width > MOST_PIXELS:
            return replace(step, note="too many pixels to be looked at")
        kernel = ImageKernel(chain, height, width, self.limits, channels_first=self.channels_first)
        out = np.empty((1, *(axis or 0 for axis in kernel.field.shape)), kernel.field.numpy_dtype)
        kernel(row, sample, key=key, out=out, threads=1)
        pixels = thinned(np.moveaxis(out[0], 0, 2) if chain.layout == "NCHW" else out[0])
        return replace(step, pixels=_wider(pixels, chain.numbers.dtype).copy())

    def _chain(self, ops: int) -> Chain:
        source = self.source
        if self.channels_first and source.dtype != "bytes":
            source = replace(source, shape=(*source.shape[1:], *source.shape[:1]))
        return chain_of(self.ops[:ops], source, self.numbers[:ops])

    def _size_behind(self, chain: Chain, row: Column, sample: Ids, key: int) -> Size:
        """(height, width) of a row behind the chain's ops: where the next op of the whole one meets it."""
        place, whole = len(chain.geometry), self._chain(len(self.ops))
        if place == len(whole.geometry):
            height, width = (
                axis or 0
                for axis in (self.whole.field.shape[1:] if whole.layout == "NCHW" else self.whole.field.shape[:2])
            )
            return height, width
        data = np.frombuffer(_header(row, channels_first=self.channels_first), np.uint8)
        at, length = np.zeros(1, np.int64), np.array([len(data)])
        found = self.whole.program.sizes_before([place], [data], at, at, length, np.ascontiguousarray(sample), key)
        return int(found[0]), int(found[1])


def _header(row: Column, *, channels_first: bool) -> bytes:
    """A file that says how large a row is: its own, or for pixels the head of a PNG."""
    if not isinstance(row, np.ndarray):
        value = row[0]
        return bytes((value.as_py() or b"") if isinstance(value, pa.Scalar) else value)
    height, width = row.shape[2:4] if channels_first else row.shape[1:3]
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIIBBBBBI", 13, b"IHDR", width, height, 8, 2, 0, 0, 0, 0)


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
