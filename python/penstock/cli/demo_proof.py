"""The demo's proofs, made from what was delivered: paths, labels and every pixel."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from penstock.core.columns.spec import Ids
from penstock.dataset import Dataset
from penstock.loader import Loader

Framework = Literal["numpy", "torch"]

_WORLD_SIZES = (1, 2, 4)
_RANK_STEPS = 3


@dataclass(frozen=True)
class Proof:
    """One proof. name: for programs. holds: the outcome. found: what was compared, in words."""

    name: str
    holds: bool
    found: str


@dataclass(frozen=True)
class DeliveredBatch:
    """What a batch held: the files it came from, and a digest of its pixels and labels."""

    paths: tuple[str, ...]
    digest: str


@dataclass
class DeliveryRecord:
    """Records what one epoch delivers, in order of delivery, from whichever loader."""

    epoch: int
    steps: list[int] = field(default_factory=list)
    batches: list[DeliveredBatch] = field(default_factory=list)

    def note(self, epoch: int, step: int, batch: dict[str, Any]) -> None:
        """Add a batch if it belongs to the epoch."""
        if epoch == self.epoch:
            self.steps.append(step)
            self.batches.append(delivered([batch]))


def delivered(parts: list[dict[str, Any]]) -> DeliveredBatch:
    """The record of a global batch, given as the parts of its ranks in rank order."""
    paths = tuple(path for part in parts for path in part["path"].to_pylist())
    digest = hashlib.blake2b(digest_size=16)
    for name in ("image", "label"):
        for part in parts:
            digest.update(np.ascontiguousarray(part[name]).data)
    return DeliveredBatch(paths, digest.hexdigest())


def prove_resume(dataset: Dataset, ledger: DeliveryRecord, stopped_at: int, to: Framework) -> Iterator[Proof]:
    """Compare the interrupted epoch with an uninterrupted loader, and with the arithmetic of sample ids."""
    with Loader(dataset, to=to, rank=0, world_size=1) as whole:
        whole.set_epoch(ledger.epoch)
        expected = [delivered([batch]) for batch in whole]
        ids = [whole.sample_ids(ledger.epoch, step) for step in range(len(whole))]
    steps = len(expected)
    yield Proof(
        "every_step_once",
        ledger.steps == list(range(steps)),
        f"steps 0 … {stopped_at - 1} came before the stop, {stopped_at} … {steps - 1} after it, each once and in order",
    )
    yield Proof(
        "sample_ids_continue",
        [_paths_of(dataset, step_ids) for step_ids in ids] == [batch.paths for batch in ledger.batches],
        f"the {sum(map(len, ids)):,} files delivered are those that arithmetic on sample ids predicts",
    )
    yield Proof(
        "same_as_uninterrupted",
        expected == ledger.batches,
        "an uninterrupted loader delivers the same files, labels and augmented pixels, bit for bit",
    )


def _paths_of(dataset: Dataset, ids: Ids) -> tuple[str, ...]:
    shards = dataset.source.manifest.shards
    return tuple(shards.path(int(sample)) for sample in ids)


def prove_ranks(dataset: Dataset, epoch: int, to: Framework) -> Proof:
    """Compare the global batches of 1, 2 and 4 ranks."""
    by_world = [
        [_global_batch(dataset, to, world, epoch, step) for step in range(_RANK_STEPS)] for world in _WORLD_SIZES
    ]
    return Proof(
        "same_on_any_number_of_ranks",
        all(batches == by_world[0] for batches in by_world),
        f"{', '.join(map(str, _WORLD_SIZES))} ranks make the same global batches, bit for bit ({_RANK_STEPS} steps compared)",
    )


def _global_batch(dataset: Dataset, to: Framework, world_size: int, epoch: int, step: int) -> DeliveredBatch:
    parts = []
    for rank in range(world_size):
        with Loader(dataset, to=to, rank=rank, world_size=world_size) as loader:
            parts.append(loader.batch_at(epoch, step))
    return delivered(parts)


def prove_labels(dataset: Dataset) -> Proof:
    """Compare each label of an epoch with the class folder of its file."""
    wrong = rows = 0
    with Loader(dataset, rank=0, world_size=1) as loader:
        for batch in loader:
            folders = [Path(path).parent.name for path in batch["path"].to_pylist()]
            wrong += sum(
                dataset.classes[label] != folder for label, folder in zip(batch["label"], folders, strict=True)
            )
            rows += len(folders)
    return Proof("labels_match_folders", wrong == 0, f"{wrong} of {rows:,} labels differ from their file's folder")


def prove_learning(accuracy: float, classes: int, *, times_chance: float = 4.0) -> Proof:
    """Require an accuracy far above chance on images that were never trained on."""
    chance = 1 / classes
    return Proof(
        "labels_belong_to_pictures",
        accuracy >= times_chance * chance,
        f"accuracy {accuracy:.1%} on held-out images, chance {chance:.1%} (required: {times_chance * chance:.0%} or more)",
    )
