"""The pictures of docs/order.md, drawn from runs: a training that is killed and resumed, the same training on 1, 2 and 4 ranks, and the lanes of an epoch.

    python benches/order_pictures.py [--out docs/images] [--json FILE] [--small] [--lanes]

The training is benches/order_training.py: PyTorch processes (gloo, over the loopback interface), a mixed, filtered and packed stream, a checkpoint by atomic rename every
7 steps. SIGKILL comes at random moments (--seed). Exits with 1 if curves that should coincide do not: within 1e-12 in float64, as sums over ranks are added up in
another order; on one rank bit for bit.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps
from order_drawing import draw_kills, draw_lanes, draw_ranks
from order_training import CHECKPOINT_STEPS, Training, run, write_data
from run import cpu_model
from work import REPOSITORY

TOLERANCE = 1e-12
RANKS, CHANGING = (1, 2, 4), (4, 2, 1)
ROWS, BLOCK_ROWS, LANES, ROWS_PER_LANE, EPOCH, SHOWN_STEP = 64, 4, 4, 2, 0, 3
Figures = dict[str, Any]
Record = tuple[int, int, float]


class Trainings:
    """Trainings in folders of their own, on the same data."""

    def __init__(self, folder: Path, epochs: int, steps: int, seed: int) -> None:
        self.folder, self.epochs, self.steps, self.seed = folder, epochs, steps, seed
        write_data(folder / "data")

    def run(self, name: str, ranks: Sequence[int], *, resumes_data: bool = True) -> list[Record]:
        """What all starts of one training recorded; every start but the last was killed."""
        training = Training(
            folder=self.folder / name,
            data=self.folder / "data",
            epochs=self.epochs,
            steps=self.steps,
            resumes_data=resumes_data,
        )
        run(training, ranks, self.seed)
        print(f"{name}: done", flush=True)
        return training.recorded()


def losses_of(recorded: list[Record]) -> list[float]:
    """The loss of each step; of a step that was taken again, the last."""
    by_step = {step: loss for _, step, loss in recorded}
    return [by_step[step] for step in range(max(by_step) + 1)]


def difference(recorded: list[Record], wanted: list[float]) -> float:
    """The largest, over all steps of all starts, those that were taken twice included."""
    if {step for _, step, _ in recorded} != set(range(len(wanted))):
        raise ValueError("the runs do not have the same steps")
    return max(abs(loss - wanted[step]) for _, step, loss in recorded)


def starts_of(recorded: list[Record]) -> list[Figures]:
    """The steps and losses of each start."""
    starts = []
    count = recorded[-1][0] + 1
    for number in range(count):
        taken = [(step, loss) for start, step, loss in recorded if start == number]
        first, last = taken[0][0], taken[-1][0]
        losses = [loss for _, loss in taken]
        starts.append({"first": first, "last": last, "killed": number < count - 1, "losses": losses})
    return starts


def kills(trainings: Trainings, count: int) -> Figures:
    """Killed and resumed beside the uninterrupted run; and, for comparison, resumed without the loader's state."""
    whole = losses_of(trainings.run("uninterrupted", [1]))
    killed = trainings.run("killed and resumed", [1] * (count + 1))
    without = trainings.run("resumed without the loader's state", [1] * (count + 1), resumes_data=False)
    return {
        "kills": count,
        "steps_taken_again": len(killed) - len(whole),
        "largest_difference": difference(killed, whole),
        "largest_difference_without_loader_state": difference(without, whole),
        "uninterrupted": whole,
        "starts": starts_of(killed),
        "without_loader_state": losses_of(without),
    }


def on_ranks(trainings: Trainings, one_rank: list[float]) -> Figures:
    """The same training on several numbers of ranks, and on others after every kill."""
    runs = {ranks: trainings.run(f"on {ranks} ranks", [ranks]) for ranks in RANKS if ranks > 1}
    changing = trainings.run(f"on {', '.join(map(str, CHANGING))} ranks in turn", CHANGING)
    every = [one_rank, *map(losses_of, runs.values()), losses_of(changing)]
    largest = max(difference(record, losses) for record in [*runs.values(), changing] for losses in every)
    return {
        "largest_difference": largest,
        "losses": {"1": one_rank} | {str(ranks): losses_of(record) for ranks, record in runs.items()},
        "changing": {"ranks": CHANGING, "losses": losses_of(changing), "starts": starts_of(changing)},
    }


def lanes() -> Figures:
    """A small epoch as the order deals it: rows by step and lane, blocks by lane, lanes by rank."""
    rows = ps.from_arrays({"row": np.arange(ROWS)}).shuffle(seed=0, block_rows=BLOCK_ROWS, window_blocks=2)
    plan = rows.batch(LANES * ROWS_PER_LANE, lanes=LANES)
    whole = ps.Loader(plan, rank=0, world_size=1)
    steps = [whole.sample_ids(EPOCH, step).reshape(LANES, -1).tolist() for step in range(len(whole))]
    by_lane = [[row for step in steps for row in step[lane]] for lane in range(LANES)]
    return {
        "rows": ROWS,
        "block_rows": BLOCK_ROWS,
        "epoch": EPOCH,
        "shown_step": SHOWN_STEP,
        "steps": steps,
        "blocks": [list(dict.fromkeys(row // BLOCK_ROWS for row in one)) for one in by_lane],
        "held": {str(ranks): [held(plan, rank, ranks, by_lane) for rank in range(ranks)] for ranks in (2, 4)},
    }


def held(plan: ps.Dataset, rank: int, ranks: int, by_lane: list[list[int]]) -> list[int]:
    """The lanes of which a rank takes every row; it takes no other."""
    loader = ps.Loader(plan, rank=rank, world_size=ranks)
    taken = {row for step in range(len(loader)) for row in loader.sample_ids(EPOCH, step).tolist()}
    mine = [lane for lane, one in enumerate(by_lane) if taken.issuperset(one)]
    if taken != {row for lane in mine for row in by_lane[lane]}:
        raise ValueError(f"rank {rank} of {ranks} takes parts of lanes")
    return mine


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=REPOSITORY / "docs" / "images", help="the folder of the pictures")
    parser.add_argument("--json", type=Path, help="write the figures")
    parser.add_argument("--seed", type=int, default=0, help="of the moments of the kills")
    parser.add_argument("--small", action="store_true", help="a short training, killed twice")
    parser.add_argument("--lanes", action="store_true", help="draw the lanes alone, which needs no PyTorch")
    return parser.parse_args()


def measure(arguments: argparse.Namespace) -> Figures:
    """All figures."""
    found: Figures = {"lanes": lanes()}
    if arguments.lanes:
        return found
    import torch

    with tempfile.TemporaryDirectory() as folder:
        epochs, steps, count = (2, 20, 2) if arguments.small else (3, 60, 4)
        trainings = Trainings(Path(folder), epochs, steps, arguments.seed)
        found["kill_and_resume"] = kills(trainings, count)
        found["ranks"] = on_ranks(trainings, found["kill_and_resume"]["uninterrupted"])
    versions = {"penstock": ps.__version__, "torch": torch.__version__, "python": platform.python_version()}
    machine = {"cpu": cpu_model(), "cpus": os.cpu_count()}
    training = {"epochs": epochs, "steps": steps, "checkpoint_every": CHECKPOINT_STEPS}
    return {"machine": machine, "versions": versions, "seed": arguments.seed, "training": training} | found


def draw(found: Figures, out: Path) -> None:
    """One file a picture."""
    out.mkdir(parents=True, exist_ok=True)
    for name, picture in (("kill_and_resume", draw_kills), ("ranks", draw_ranks), ("lanes", draw_lanes)):
        if name in found:
            (out / f"order_{name}.svg").write_text(picture(found[name]), encoding="utf-8")


def coincide(found: Figures) -> bool:
    """Says so, and whether it is true."""
    killed, ranks = found["kill_and_resume"]["largest_difference"], found["ranks"]["largest_difference"]
    print(f"killed and resumed: largest difference {killed:.2g}; on 1, 2 and 4 ranks: {ranks:.2g}")
    return killed == 0 and ranks <= TOLERANCE


def main() -> int:
    """1 if curves do not coincide."""
    arguments = parse()
    found = measure(arguments)
    draw(found, arguments.out)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1))
    return 0 if arguments.lanes or coincide(found) else 1


if __name__ == "__main__":
    sys.exit(main())
