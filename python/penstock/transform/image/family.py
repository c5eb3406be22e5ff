"""Images as a family: chains become kernels, which know their decoders, the JPEG index, and what a device may do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from penstock.core import kernels
from penstock.core.columns.op_step import OpStep
from penstock.core.columns.spec import Columns, EntryPoints, Ids
from penstock.core.draw_keys import DrawKeys
from penstock.core.errors import PlanError, RowError
from penstock.core.images.encoded import image_mode
from penstock.core.messages import quoted
from penstock.source.jpeg_index import Growing, entry_points_of, index_path, load
from penstock.transform.family import Chains, DeviceKernel, Drawing, Family, Kernel, Site, Workspace, one_column
from penstock.transform.image.along_kernel import AlongKernel
from penstock.transform.image.decode import Decode, loss_in_words
from penstock.transform.image.device import DeviceSplit, split
from penstock.transform.image.kernel import (
    ImageKernel,
    as_first_is,
    fuse,
    gives_indices,
    image_size,
    numbers_of,
    run_views,
)
from penstock.transform.image.mix_kernel import MixKernel
from penstock.transform.image.nested import labelled
from penstock.transform.image.numbers import ToLayout
from penstock.transform.image.same_sizes import unequal_sizes
from penstock.transform.image.steps import Beside, ChainSteps
from penstock.transform.image.view import From, flattened


@dataclass(frozen=True)
class AtCache(ToLayout):
    """A layout that the user did not write: of pixels on their way into a cache, and of those that come out of it again."""


class ImageFamily(Family):
    """See `Family`."""

    def compile(self, chains: Chains, site: Site) -> Kernel:
        """See `Family`."""
        on_batch = chains.get("", ())
        if on_batch:
            return MixKernel(on_batch[0], site)
        images, along = _parted(chains)
        made = ImageColumns(images, site)
        return AlongKernel(made, along, site) if along else made

    def indices(self, chains: Chains, site: Site) -> frozenset[str]:
        """See `Family`."""
        images, along = _parted(chains)
        found = {name for name, ops in along.items() if getattr(ops[0], "mode", "") == "P"}
        for name, (column, ops, _) in _flat(images, site).items():
            if gives_indices(ops, from_indices=column in site.indices):
                found.add(name)
        return frozenset(found)

    def device_ends(self, chains: Chains, site: Site, columns: frozenset[str]) -> Mapping[str, DeviceKernel]:
        """See `Family`."""
        images, along = _parted(chains)
        ends = _ends(_flat(images, site), site, columns)
        return {name: end for name, end in ends.items() if end.host or not along}

    def layout(self, ops: Sequence[Any]) -> str:
        """See `Family`: "NCHW" where a chain does not say."""
        flat, _ = flattened(ops, ())
        return next((op.layout for op in reversed(flat) if isinstance(op, ToLayout)), "NCHW")

    def at_cache(
        self, before: tuple[Any, ...], after: tuple[Any, ...], *, goes_on: bool
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """See `Family`: pixels lie channels last in caches whose rows go on through image ops, but for masks."""
        if any(ops and ops[0].goes_along for ops in (before, after)):
            return before, after
        layout: Any = self.layout(before)
        if goes_on and not any(isinstance(op, ToLayout) for op in after):
            after = (*after, AtCache(layout))
        return before if layout == "NHWC" else (*before, AtCache("NHWC")), after

    def unequal(self, drawings: Sequence[Drawing]) -> list[RowError]:
        """See `Family`."""
        return unequal_sizes(drawings, lambda one: cast("ImageColumns", one.kernel).sizes(one))


def _parted(chains: Chains) -> tuple[Chains, Chains]:
    """The chains of images, and those of what goes along with them."""
    along = {name: ops for name, ops in chains.items() if ops and ops[0].goes_along}
    return {name: ops for name, ops in chains.items() if name not in along}, along


#: For each chain the column that it works on, its ops as they run, and their numbers.
_Flat: TypeAlias = dict[str, tuple[str, tuple[Any, ...], tuple[int, ...]]]


def _flat(chains: Chains, site: Site) -> _Flat:
    """For each chain the column that it works on, its ops as they run, and their numbers; the modes of images are those of the first where that is asked for."""
    leaders = {name: ops for name, ops in chains.items() if not ops or not isinstance(ops[0], From)}
    if site.first is not None:
        leaders = {name: as_first_is(ops, partial(_first, site, name, image_mode)) for name, ops in leaders.items()}
    found: _Flat = {}
    for name, ops in chains.items():
        column = name if name in leaders else ops[0].column
        decode = tuple(op for op in leaders[column][:1] if isinstance(op, Decode))
        found[name] = (column, *flattened(leaders.get(name, ops), site.numbers.get(name, ()), decode))
    return found


def _ends(flat: _Flat, site: Site, columns: frozenset[str]) -> dict[str, DeviceSplit]:
    """What a device does of these columns: the end of a chain that has no other view, unless its pixels come channels first."""
    ((name, (column, ops, numbers)), *others) = flat.items()
    if others or name not in columns or column in site.channels_first:
        return {}
    found = split(ops, site.fields[column], op_numbers=numbers)
    return {} if found is None else {name: found}


def _first(site: Site, column: str, look: Any) -> Any:
    """What `look` says of the first image of a column; PlanError if that is not there yet."""
    assert site.first is not None
    try:
        return site.first(column, look)
    except KeyError:
        raise PlanError(
            f"transform: column {quoted(column)} comes out of a function, and what its first image is cannot be looked up before; say "
            f"Decode(mode=…), and let Resize((height, width)) or a crop fix the size"
        ) from None


_NO_BOXES: Mapping[str, kernels.BoxColumn] = {}
_NOTHING_BESIDE: Mapping[str, Beside] = {}


class ImageColumns(Kernel):
    """The chains of one column of images, each with its result; more than one where it has several views."""

    def __init__(self, chains: Chains, site: Site) -> None:
        self._flat = _flat(chains, site)
        self._site = site
        (column,) = {column for column, _, _ in self._flat.values()}
        self._column, self._field = column, site.fields[column]
        self._size = lru_cache(maxsize=1)(lambda: _first(site, column, self._size_of))
        self._kernels = {name: self._fused(ops, numbers) for name, (_, ops, numbers) in self._flat.items()}
        self.columns = (column,)
        self.fields = {name: kernel.field for name, kernel in self._kernels.items()}
        self._entry_points = self._index() if len(self._flat) == 1 else None

    def kernel_of(self, name: str) -> ImageKernel:
        """That of a chain."""
        return self._kernels[name]

    def asks_for_boxes(self, name: str) -> bool:
        """Whether an op of a chain looks at the image's boxes."""
        return any(op.asks_for_boxes for op in self._flat[name][1])

    def _size_of(self, data: bytes) -> tuple[int, int]:
        return image_size(data, next(iter(self._flat.values()))[1])

    def _fused(self, ops: Sequence[Any], numbers: Sequence[int]) -> ImageKernel:
        is_first = self._column in self._site.channels_first
        limits = self._site.limits
        return fuse(ops, self._field, self._size, limits=limits, numbers=numbers, channels_first=is_first)

    def _index(self) -> EntryPoints | Growing | None:
        """The JPEG index of a column that lies in files, as its Decode asks for it."""
        ((column, ops, _),) = self._flat.values()
        wish = ops[0].entry_points if ops and isinstance(ops[0], Decode) else "off"
        place = None if wish == "off" else self._site.in_file(column)
        if place is None:
            return None
        path = index_path(place.digest, place.name)
        found = load(path)
        return found if found is not None or wish == "auto" else Growing(place.samples, path)

    def __call__(
        self,
        columns: Columns,
        keys: Mapping[str, DrawKeys],
        work: Workspace,
        boxes: Mapping[str, kernels.BoxColumn] = _NO_BOXES,
    ) -> Columns:
        """See `Kernel`. boxes: of each chain that asks for them."""
        column = one_column(self._column, columns)
        rows = keys[next(iter(self._flat))].rows
        outs = {name: work.allocate(name, kernel.field, len(rows)) for name, kernel in self._kernels.items()}
        views = [(kernel, keys[name].stage, outs[name], boxes.get(name)) for name, kernel in self._kernels.items()]
        points = None if work.samples is None else self._points(column, work.samples, work.threads)
        try:
            lost = run_views(
                views, column, rows, threads=work.threads, entry_points=points, every_row=work.bad is not None
            )
        except RowError as error:
            if work.bad is None or not error.every:
                raise
            work.bad(error.every)
            return outs
        if lost is not None:
            self._warn(lost, views[0][0], work)
        return outs

    def _warn(self, lost: tuple[int, str], kernel: ImageKernel, work: Workspace) -> None:
        try:
            work.note(lost[0], f"column {quoted(self._column)}: {loss_in_words(lost[1])}")
        except Warning:  # an error by the user's filters: its step is made again, alone, and must fail again
            kernel.is_watching = True
            raise

    def _points(self, column: Any, samples: Ids, threads: int) -> EntryPoints | None:
        """Entry points for the column's images; missing ones are made first, where the plan says so."""
        growing = self._entry_points
        if not isinstance(growing, Growing):
            return growing
        missing = growing.missing(samples)
        if len(missing):
            data, length, checksum = entry_points_of(column.take(missing), threads)
            growing.add(samples[missing], length, checksum, data)
        return growing.view()

    def counts(self) -> Counter[str]:
        """Images so far, by decoder."""
        return sum((kernel.images for kernel in self._kernels.values()), Counter())

    def drawn(
        self,
        columns: Columns,
        keys: Mapping[str, DrawKeys],
        work: Workspace,
        boxes: Mapping[str, kernels.BoxColumn] = _NO_BOXES,
    ) -> dict[str, Any]:
        """See `Kernel`: of each column, the ops that draw, and a number a row of each parameter, NaN where a row has none."""
        column = one_column(self._column, columns)
        found = dict[str, Any]()
        for name, (_, ops, numbers) in self._flat.items():
            labels = labelled(ops, numbers_of(ops, numbers))
            drawn = self._kernels[name].drawn(column, keys[name].rows, keys[name].stage, boxes.get(name))
            found[name] = {labels[number]: parameters for number, parameters in drawn.items()}
        return found

    def steps(
        self,
        columns: Columns,
        keys: Mapping[str, DrawKeys],
        work: Workspace,
        boxes: Mapping[str, kernels.BoxColumn] = _NO_BOXES,
        beside: Mapping[str, Beside] = _NOTHING_BESIDE,
    ) -> dict[str, list[list[OpStep]]]:
        """See `Kernel`. boxes, beside: see `ChainSteps`, of each chain that has some."""
        column, drawn = one_column(self._column, columns), self.drawn(columns, keys, work, boxes)
        found = dict[str, list[list[OpStep]]]()
        for name, (_, ops, numbers) in self._flat.items():
            every = numbers_of(ops, numbers)
            chain = ChainSteps(
                ops=ops,
                numbers=every,
                labels=labelled(ops, every),
                source=self._field,
                channels_first=self._column in self._site.channels_first,
                limits=self._site.limits,
                whole=self._kernels[name],
                boxes=boxes.get(name),
                beside=beside.get(name),
            )
            found[name] = chain.of(column, keys[name].rows, keys[name].stage, drawn[name])
        return found

    def sizes(self, drawing: Drawing) -> dict[int, npt.NDArray[np.uint32]]:
        """(height, width) of every image where ops of one chain meet it that draw by the size: see `ImageKernel.sizes`."""
        column = one_column(self._column, drawing.columns)
        return self._kernels[drawing.name].sizes(column, drawing.keys.rows, drawing.keys.stage)

    def on_device(self, columns: frozenset[str]) -> tuple[Kernel | None, Mapping[str, DeviceKernel]]:
        """See `Kernel`."""
        ends = _ends(self._flat, self._site, columns)
        if not ends:
            return self, ends
        ((name, found),) = ends.items()
        return (self._with(name, found.host) if found.host else None), ends

    def _with(self, name: str, ops: tuple[Any, ...]) -> ImageColumns:
        """The same, with less to do."""
        column, _, numbers = self._flat[name]
        self._flat[name] = column, ops, numbers
        self._kernels[name] = self._fused(ops, numbers)
        self.fields = {name: self._kernels[name].field}
        return self


FAMILY = ImageFamily()
