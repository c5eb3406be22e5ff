"""Real ranks of gloo that count a plan's rows together: python count_run.py FOLDER RANKS. Each writes what it saw to FOLDER/RANK.json.

Every rank has a cache of its own, as on machines of its own, but in `same_cache`.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch.distributed as dist

import penstock as ps
import penstock.deliver.torch  # before the fork
import penstock.loader
import penstock.tools.count_rows
from penstock.deliver import together
from penstock.tools import count_lanes

ROWS = 3_000
folder, world = Path(sys.argv[1]), int(sys.argv[2])
rank = -1


# What a plan's functions look at would name its counts: so it stands in the environment.


def called(rows: int | None = None) -> int:
    """How many rows functions got here so far."""
    found = 0 if rows is None else int(os.environ["CALLED"]) + rows
    os.environ["CALLED"] = str(found)
    return found


def seventh(batch: Any) -> Any:
    called(len(batch["x"]))
    return batch["x"] % 7 < 3


def first_few(batch: Any) -> Any:
    """Rows of some lanes alone."""
    return batch["x"] < 500


def fails_late(batch: Any) -> Any:
    if os.environ["MY_RANK"] == "1" and called(0) > 300:
        raise ValueError("what only rank 1 meets")
    return seventh(batch)


def is_slow(batch: Any) -> Any:
    Path(os.environ["BEGUN"]).touch()
    time.sleep(0.02)
    return seventh(batch)


def stops(batch: Any) -> Any:
    if "STOP" in os.environ and called(0) > 400:
        raise KeyboardInterrupt
    return seventh(batch)


def numbers() -> ps.Dataset:
    return ps.from_arrays({"x": np.arange(ROWS)})


def plans() -> dict[str, ps.Dataset]:
    documents = ps.from_arrays({"tokens": [np.arange(n % 37 + 1) for n in range(700)], "x": np.arange(700)})
    return {
        "filter": numbers().shuffle(seed=0).filter(seventh).batch(48),
        "natural": numbers().filter(seventh).batch(48),
        "few": numbers().filter(first_few).batch(48, lanes=3),
        "one lane": numbers().filter(seventh).batch(48, lanes=1),
        "nested": documents.shuffle(seed=1).filter(seventh).pack("tokens", length=64, window=50).batch(24),
        "joined": ps.concat([numbers().filter(seventh), numbers().filter(first_few)]).batch(24),
    }


def cache(name: str, *, own: bool = True) -> None:
    os.environ["XDG_CACHE_HOME"] = str(folder / f"{name}-{rank if own else 'all'}")


def counted(plan: ps.Dataset, **options: Any) -> Any:
    """The rows, and of how many the function was called here; or the error."""
    called()
    try:
        return plan.count_rows(**options), called(0)
    except BaseException as error:
        return f"{type(error).__name__}: {error}", called(0)


def trained(plan: ps.Dataset) -> list[list[int]]:
    with ps.Loader(plan) as loader:
        return [
            np.asarray(batch["x"]).reshape(-1).tolist() if "x" in batch else [len(batch["tokens"])] for batch in loader
        ]


def all_count() -> Any:
    found = {}
    for name, plan in plans().items():
        cache("all count")
        rows = counted(plan, epochs=2)
        found[name] = [rows, trained(plan)]
    return found


def same_cache() -> Any:
    cache("same cache", own=False)
    return counted(plans()["filter"])


def one_rank_counts() -> Any:
    cache("one rank")
    found = counted(plans()["filter"]) if rank == 0 else None
    dist.barrier()
    return found


def one_comes_late() -> Any:
    together._MEET_S = 0.5
    cache("late")
    os.environ["BEGUN"] = str(folder / "begun")
    while rank == world - 1 and not (folder / "begun").exists():
        time.sleep(0.1)
    return counted(numbers().filter(is_slow).batch(48))


def one_fails() -> Any:
    cache("fails")
    found = [counted(numbers().shuffle(seed=0).filter(fails_late).batch(48)) for _ in range(2)]  # and again
    return found, time.monotonic()


def one_is_lost() -> Any:
    """A rank whose process is there, and shows no life."""
    together._LOST_S = 2.0
    cache("lost")
    if rank == 1:
        together.Together._show_life = lambda *_: None  # type: ignore[method-assign]
        together.Together.exchange = lambda *_: time.sleep(6)  # type: ignore[assignment, method-assign]
    return counted(numbers().filter(seventh).batch(48))


def interrupted() -> Any:
    count_lanes.ROWS_TOGETHER, count_lanes.KEEP_S = 64, 0.0
    cache("interrupted")
    os.environ["STOP"] = "1"
    before = counted(numbers().shuffle(seed=0).filter(stops).batch(48))
    dist.barrier()
    del os.environ["STOP"]
    return (
        before,
        counted(numbers().shuffle(seed=0).filter(stops).batch(48)),
        sorted(path.name.count("-") for path in Path(os.environ["XDG_CACHE_HOME"]).rglob("*.counts")),
    )


CASES: list[Callable[[], Any]] = [
    all_count,
    same_cache,
    one_rank_counts,
    one_comes_late,
    one_fails,
    interrupted,
    one_is_lost,
]


def run(number: int) -> None:
    global rank
    rank, os.environ["MY_RANK"], os.environ["CALLED"] = number, str(number), "0"
    cache("alone")
    found: dict[str, Any] = {"alone": {name: plan.count_rows(epochs=2) for name, plan in plans().items()}}
    for case in CASES:
        dist.init_process_group("gloo", init_method=f"file://{folder}/{case.__name__}", rank=rank, world_size=world)
        defaults = together._MEET_S, together._LOST_S, count_lanes.ROWS_TOGETHER, count_lanes.KEEP_S
        together._MEET_S = 20.0 if case is not one_rank_counts else 1.0
        found[case.__name__] = case()
        together._MEET_S, together._LOST_S, count_lanes.ROWS_TOGETHER, count_lanes.KEEP_S = defaults
        dist.barrier()
        dist.destroy_process_group()
    (folder / f"{rank}.json").write_text(json.dumps(found))


def main() -> None:
    children = []
    for number in range(world):
        if not (child := os.fork()):
            try:
                run(number)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        children.append(child)
    failed = [child for child in children if os.waitpid(child, 0)[1]]
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
