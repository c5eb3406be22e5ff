"""Batches of a recognised dataset, by indices: of tensors and of a table's columns by one call each, of files by a pipeline that makes them ahead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch.utils.data import default_collate

from penstock.core.columns.spec import Ids
from penstock.core.errors import SourceError
from penstock.dataset import Dataset
from penstock.torch.recognised.hugging_face import ItemTable
from penstock.torch.recognised.open import leaves_plan, plan_of
from penstock.torch.recognised.pipeline import FilePipeline
from penstock.torch.recognised.tables import TableRows
from penstock.torch.recognised.transforms import NotKnown
from penstock.torch.recognised.walk import ImageFiles, Tensors, Walk, walk, wrapped

#: How many batches are made ahead: of so many, the indices are drawn.
_AHEAD = 8


def recognise(dataset: Any) -> Recognised | None:
    """A dataset of PyTorch whose batches Penstock can make natively.

    Args:
        dataset: a map-style dataset.

    Returns:
        What makes batches of any indices; None where Penstock does not know the dataset, and `explain_refusal` says why.

    Example:
        import torch
        from torch.utils.data import TensorDataset

        from penstock.torch.recognised import recognise

        known = recognise(TensorDataset(torch.arange(10), torch.arange(10) * 2))
        [batch[1].tolist() for batch in known.batches([[0, -1], [7, 7]])] == [[0, 18], [14, 14]]
    """
    try:
        return Recognised(dataset)
    except (NotKnown, SourceError):
        return None


def explain_refusal(dataset: Any) -> str:
    """Why `recognise` does not know a dataset.

    Args:
        dataset: a map-style dataset.

    Returns:
        The reason; "" if it is known.

    Example:
        from penstock.torch.recognised import explain_refusal

        explain_refusal([1, 2, 3]) == "not recognised: …"
    """
    try:
        Recognised(dataset).close()
    except (NotKnown, SourceError) as refused:
        return f"not recognised: {refused}; items are made by the dataset itself"
    return ""


class Recognised:
    """A dataset whose batches are made natively. Raises NotKnown, SourceError where that cannot be.

    recognise(TensorDataset(torch.arange(4))).batches([[3, 0], [1, 1]]) gives [tensor([3, 0])], then [tensor([1, 1])]
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self._open(walk(dataset))

    def _open(self, found: Walk) -> None:
        if not len(found):
            raise NotKnown("a dataset without rows")
        tables = [leaf for leaf in found.leaves if isinstance(leaf, ItemTable)]
        self._table = TableRows(tables) if tables else None
        is_files = isinstance(found.leaves[0], ImageFiles)
        self._pipeline = FilePipeline(leaves_plan(found)) if is_files else None
        self._walk = found

    @property
    def plan(self) -> Dataset:
        """A plan whose row i is dataset[i]; PlanError for tensors that no column can hold."""
        return plan_of(self._walk)

    def batches(
        self, index_batches: Iterable[Sequence[int]], *, seed: int | None = None, first_batch: int = 0
    ) -> Iterator[Any]:
        """For each batch of indices, in any order and as often as they come, default_collate([dataset[i] for i in batch]).

        Where a dataset has `__getitems__`, that gives the items, as in PyTorch's DataLoader. What was changed of the dataset counts from
        here on. Of files, up to 8 batches are made ahead, in other threads; the indices are drawn in this one. Random transforms draw by
        `seed`, by a batch's number from `first_batch` on, and by the row's place in it, so that a resumed pass continues as it was; seed: a
        number from 0 on, drawn from torch's generator where it is not given. Where a batch cannot be made natively, PyTorch's way makes
        it, or raises its error.
        """
        if seed is None:
            seed = int(torch.empty((), dtype=torch.int64).random_().item())
        try:
            now = walk(self.dataset)
            if now != self._walk:
                self._open(now)
        except (NotKnown, SourceError):
            return map(self._by_items, index_batches)
        if self._table is not None:
            return map(partial(self._of_table, self._table), index_batches)
        if self._pipeline is None:
            return map(self._of_tensors, index_batches)
        return self._of_files(self._pipeline, index_batches, seed, first_batch)

    @property
    def is_random(self) -> bool:
        """Whether its transforms draw random numbers."""
        return any(op.is_random for leaf in self._walk.leaves if isinstance(leaf, ImageFiles) for op in leaf.ops)

    def explain(self) -> str:
        """What is made natively, and what is not exactly as PyTorch does it."""
        lines = [*self._walk.steps, *map(str, self._walk.leaves)]
        ops = self._walk.leaves[0].ops if isinstance(self._walk.leaves[0], ImageFiles) else ()
        if self.is_random:
            lines.append(
                "random transforms: the same distribution, by Penstock's generator: other numbers than torchvision's"
            )
        if ops:
            lines.append(
                "pixels: baseline JPEG, PNG, WebP and BMP as Pillow's; progressive JPEG within 3 levels of 255, CMYK 1, resized 1"
            )
        return "\n".join(lines)

    def close(self) -> None:
        """Stops what batches are made by; iterators that are at work end. Further batches start it again."""
        if self._pipeline is not None:
            self._pipeline.close()

    def _rows(self, batch: Sequence[int]) -> Ids | None:
        """The rows of the leaves; None where PyTorch has to say what becomes of such indices."""
        try:
            ids = wrapped(batch, len(self._walk), counts_from_end=self._walk.counts_from_end)
        except (IndexError, TypeError, ValueError, OverflowError):
            return None
        if not len(ids):
            return None
        return ids if self._walk.rows is None else self._walk.rows[ids]

    def _by_items(self, batch: Sequence[int]) -> Any:
        together = getattr(self.dataset, "__getitems__", None)
        return default_collate(together(batch) if together is not None else [self.dataset[index] for index in batch])

    def _of_tensors(self, batch: Sequence[int]) -> Any:
        rows, leaves = self._rows(batch), self._walk.leaves
        if rows is None or any(len(one) != len(leaf) for leaf in leaves for one in leaf.tensors):  # type: ignore[union-attr]
            return self._by_items(batch)
        return tensor_rows(leaves, torch.from_numpy(rows))  # type: ignore[arg-type]

    def _of_table(self, table: TableRows, batch: Sequence[int]) -> Any:
        rows = self._rows(batch)
        return self._taken(None if rows is None else table.batch(rows), batch)

    def _of_files(
        self, pipeline: FilePipeline, index_batches: Iterable[Sequence[int]], seed: int, first_batch: int
    ) -> Iterator[Any]:
        numbered = enumerate(index_batches, first_batch)
        with pipeline.running(seed) as run:
            waiting = list[Sequence[int]]()
            for number, batch in numbered:
                run.add(number, self._rows(batch))
                waiting.append(batch)
                if len(waiting) >= _AHEAD:
                    yield self._taken(run.take(), waiting.pop(0))
            while waiting:
                yield self._taken(run.take(), waiting.pop(0))

    def _taken(self, made: Any, batch: Sequence[int]) -> Any:
        return self._by_items(batch) if made is None else made


def tensor_rows(leaves: Sequence[Tensors], rows: torch.Tensor) -> list[torch.Tensor]:
    """Rows of tensors that follow one another, as default_collate gives them: a list with a tensor for each place."""
    if len(leaves) == 1:
        return [one.index_select(0, rows) for one in leaves[0].tensors]
    ends = torch.tensor([len(leaf) for leaf in leaves]).cumsum(0)
    which = torch.bucketize(rows, ends, right=True)
    found = [one.new_empty((len(rows), *one.shape[1:])) for one in leaves[0].tensors]
    for number in which.unique().tolist():
        places = (which == number).nonzero().reshape(-1)
        inner = rows[places] - (int(ends[number]) - len(leaves[number]))
        for out, one in zip(found, leaves[number].tensors, strict=True):
            out.index_copy_(0, places, one.index_select(0, inner))
    return found
