"""A small training on any number of gloo ranks that SIGKILL ends at random moments and that goes on from its checkpoint: what benches/order_pictures.py draws.

The model guesses each byte of this repository's own pages and code from the three before it. The data are mixed, shuffled, filtered by a function and packed.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import penstock as ps
from work import REPOSITORY

SOURCES = {"prose": ("docs/*.md",), "code": ("python/penstock/**/*.py", "benches/*.py")}
LENGTH, BATCH, CHECKPOINT_STEPS = 64, 16, 7
SEEN_BYTES, WIDTH, HIDDEN = 3, 16, 48
LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"
TIMEOUT_S = 300
#: Starts processes that have imported already what takes seconds. An optimizer imports torch._dynamo, and pyarrow imports pandas where it is installed.
PRELOADED = ["torch.distributed", "torch._dynamo", "penstock.loader", "penstock.format.parquet", "pandas"]
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(PRELOADED)


@dataclass(frozen=True, kw_only=True)
class Training:
    """What all ranks of all starts of a training know; its losses and its checkpoint are files in `folder`."""

    folder: Path
    data: Path
    epochs: int
    steps: int
    #: False forgets where the data was, as a training does that saves its model alone.
    resumes_data: bool = True

    @property
    def losses(self) -> Path:
        """A line a step: start, step, loss."""
        return self.folder / "losses"

    @property
    def checkpoint(self) -> Path:
        """The newest; replaced by a rename."""
        return self.folder / "checkpoint"

    def recorded(self) -> list[tuple[int, int, float]]:
        """What all starts recorded so far: (start, step, loss)."""
        if not self.losses.exists():
            return []
        whole = self.losses.read_text().rpartition("\n")[0]  # a line may be half written
        return [
            (int(start), int(step), float.fromhex(loss)) for start, step, loss in map(str.split, whole.splitlines())
        ]


def write_data(folder: Path) -> None:
    """Paragraphs of this repository's pages, and of its code, as rows of bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, patterns in SOURCES.items():
        files = sorted(file for pattern in patterns for file in REPOSITORY.glob(pattern))
        texts = [text.encode() for file in files for text in file.read_text(encoding="utf-8").split("\n\n")]
        tokens = pa.array([np.frombuffer(text, dtype=np.uint8) for text in texts], pa.list_(pa.uint8()))
        table = pa.table({"tokens": tokens, "bytes": [len(text) for text in texts]})
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=100)


def long_enough(batch: Any) -> Any:
    """A filter by a function."""
    return batch["bytes"] >= 24


def plan(data: Path, steps: int) -> ps.Dataset:
    """Mixed, shuffled, filtered and packed."""
    both = ps.mix([ps.read(data / f"{name}.parquet") for name in SOURCES], weights=[0.7, 0.3])
    return both.shuffle(seed=0).filter(long_enough).pack("tokens", length=LENGTH, window=20).batch(BATCH, steps=steps)


def new_model() -> Any:
    """The bytes before, embedded, through a hidden layer; float64, so that sums in another order differ by next to nothing."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(0)
    layers = [nn.Embedding(256, WIDTH), nn.Flatten(-2), nn.Linear(SEEN_BYTES * WIDTH, HIDDEN), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(HIDDEN, 256)).double()


def batch_loss(model: Any, batch: Any) -> Any:
    """The sum of a rank's losses, and over how many bytes."""
    import torch

    tokens, place = batch["tokens"].long(), batch["position_ids"]
    before = [tokens.roll(by, 1).where(place >= by, 0) for by in range(1, SEEN_BYTES + 1)]
    real = batch["segment_ids"] > 0
    guessed = model(torch.stack(before, -1)[real])
    return torch.nn.functional.cross_entropy(guessed, tokens[real], reduction="sum"), real.sum()


def reduced(model: Any, batch: Any) -> float:
    """The mean loss of the global batch; its gradient is left in the model. One all-reduce."""
    import torch

    model.zero_grad()
    loss, count = batch_loss(model, batch)
    loss.backward()
    weights = list(model.parameters())
    sums = torch.cat([loss.detach()[None], count.double()[None], *(weight.grad.flatten() for weight in weights)])
    torch.distributed.all_reduce(sums)
    gradients = torch.split(sums[2:] / sums[1], [weight.numel() for weight in weights])
    for weight, gradient in zip(weights, gradients, strict=True):
        weight.grad = gradient.view_as(weight)
    return float(sums[0] / sums[1])


def train(training: Training, start: int, rank: int, ranks: int, *, is_last: bool) -> None:
    """One rank of one start: from the newest checkpoint to the end, where all but the last start wait to be killed, should that come so late."""
    import torch

    os.environ["GLOO_SOCKET_IFNAME"] = LOOPBACK
    store = torch.distributed.FileStore(str(training.folder / f"meeting-{start}"), ranks)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    model = new_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    loader, done = ps.Loader(plan(training.data, training.steps), to="torch"), 0  # finds its rank by itself
    if training.checkpoint.exists():
        saved = torch.load(training.checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        done = saved["step"]
        if training.resumes_data:
            loader.load_state_dict(saved["loader"])
    with training.losses.open("a") as losses:
        for step, batch in zip(range(done, training.epochs * training.steps), endless(loader), strict=False):
            loss = reduced(model, batch)
            optimizer.step()
            if rank == 0:
                losses.write(f"{start} {step} {loss.hex()}\n")
                losses.flush()
            if (step + 1) % CHECKPOINT_STEPS == 0:
                save(training, rank, loader, model=model.state_dict(), optimizer=optimizer.state_dict(), step=step + 1)
    while not is_last:
        signal.pause()
    torch.distributed.destroy_process_group()


def endless(loader: ps.Loader) -> Iterator[Any]:
    """Epoch after epoch."""
    while True:
        yield from loader


def save(training: Training, rank: int, loader: ps.Loader, **other: Any) -> None:
    """Rank 0 gathers what each rank knows of its lanes, and replaces the checkpoint at once."""
    import torch

    parts: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(parts, loader.state_dict())
    if rank == 0:
        beside = training.checkpoint.with_suffix(".new")
        torch.save({"loader": ps.merge_states(parts), **other}, beside)
        beside.replace(training.checkpoint)


def run(training: Training, ranks: Sequence[int], seed: int) -> None:
    """A start for each number of ranks; every one but the last is killed, at a random moment."""
    training.folder.mkdir(parents=True)
    rng = random.Random(seed)
    moments = random_steps(rng, training.epochs * training.steps, len(ranks) - 1)
    for start, world in enumerate(ranks):
        is_last = start == len(moments)
        started = launch(training, start, world, is_last=is_last)
        if is_last:
            join(started)
        else:
            await_step(training, start, moments[start], started)
            time.sleep(rng.uniform(0, 0.02))
            kill(started)
            if any(process.exitcode != -signal.SIGKILL for process in started):
                raise RuntimeError(f"start {start} ended by itself: {[process.exitcode for process in started]}")


def launch(training: Training, start: int, ranks: int, *, is_last: bool) -> list[BaseProcess]:
    """A process a rank."""
    options = {"is_last": is_last}
    started = [
        PROCESSES.Process(target=train, args=(training, start, rank, ranks), kwargs=options) for rank in range(ranks)
    ]
    for process in started:
        process.start()
    return started


def random_steps(rng: random.Random, total: int, count: int) -> list[int]:
    """One in each of `count` equal parts of the first nine tenths of a training, none before the first checkpoint."""
    part = (total * 9 // 10 - CHECKPOINT_STEPS) // max(count, 1)
    return [CHECKPOINT_STEPS + number * part + rng.randrange(part) for number in range(count)]


def await_step(training: Training, start: int, step: int, started: list[BaseProcess]) -> None:
    """Until a start has recorded a step."""
    until = time.monotonic() + TIMEOUT_S
    while not any(of == start and at >= step for of, at, _ in training.recorded()):
        failed = [process.exitcode for process in started if process.exitcode]
        if failed or time.monotonic() > until:
            kill(started)
            raise RuntimeError(f"start {start} did not come to step {step}: {failed or 'no failure'}")
        time.sleep(0.002)


def kill(started: list[BaseProcess]) -> None:
    """SIGKILL to every rank."""
    for process in started:
        process.kill()
    for process in started:
        process.join()


def join(started: list[BaseProcess]) -> None:
    """Until all ranks end; an error if one fails."""
    for process in started:
        process.join(TIMEOUT_S)
    if any(process.exitcode for process in started) or any(process.is_alive() for process in started):
        kill(started)
        raise RuntimeError(f"ranks ended with {[process.exitcode for process in started]}")
