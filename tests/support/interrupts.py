"""Ctrl-C in the midst of long work, several cases in one process: a line each says what came of it, after how much work.

python -m support.interrupts FOLDER CASE…
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import penstock as ps

#: Images of so many pixels a side, and as many as take some seconds.
SIDE, IMAGES = 4000, 40
#: So long a function sleeps that nobody interrupts.
LONG_S = 25.0

_begun, _over = threading.Event(), threading.Event()
_sleeps_s = LONG_S


def asleep(columns: Any) -> Any:
    _begun.set()
    _over.wait(_sleeps_s)
    return columns


def awake(columns: Any) -> Any:
    _begun.set()
    return columns


def items() -> Iterator[dict[str, int]]:
    yield {"x": 0}
    yield asleep({"x": 1})


class Items:
    def __len__(self) -> int:
        return 100

    def __getitem__(self, row: int) -> dict[str, int]:
        return asleep({"x": row}) if row else {"x": 0}


def numbers() -> ps.Dataset:
    return ps.from_arrays({"x": np.arange(1000)})


def passing(plan: ps.Dataset) -> Callable[[], object]:
    loader = ps.Loader(plan, cpus=2)
    return lambda: list(loader)


def images(folder: Path) -> ps.Dataset:
    folder.mkdir(exist_ok=True)
    pixels = np.random.default_rng(0).integers(0, 256, (SIDE // 8, SIDE // 8, 3), dtype=np.uint8)
    Image.fromarray(np.tile(pixels, (8, 8, 1))).save(folder / "0.png", compress_level=1)
    for number in range(1, IMAGES):
        (folder / f"{number}.png").hardlink_to(folder / "0.png")
    ops = [ps.image.Decode(), ps.image.Resize((8, 8))]
    return ps.read(folder).batch(IMAGES).map(awake).transform(image=ops)


def decoding(folder: Path) -> Callable[[], object]:
    loader = ps.Loader(images(folder / "images"), cpus=2)
    return lambda: loader.batch_at(0, 0)


def decoding_long(folder: Path) -> Callable[[], object]:
    """One image of 64 megapixels, which takes seconds and cannot be decoded in parts."""
    pixels = np.random.default_rng(0).integers(0, 256, (1024, 1024, 3), dtype=np.uint8)
    path = folder / "long.jpg"
    Image.fromarray(np.tile(pixels, (8, 8, 1))).save(path, progressive=True)
    ops = [ps.image.Decode(), ps.image.Resize((8, 8))]
    loader = ps.Loader(ps.read([path]).batch(1).map(awake).transform(image=ops), cpus=2)
    return lambda: loader.batch_at(0, 0)


CASES: dict[str, Callable[[Path], Callable[[], object]]] = {
    "batch_at decodes": decoding,
    "map": lambda _: passing(numbers().batch(4).map(asleep)),
    "map below a filter": lambda _: passing(numbers().map(asleep).filter(lambda b: b["x"] >= 0).batch(4, steps=9)),
    "filter": lambda _: passing(numbers().filter(asleep).batch(4, steps=9)),
    "flat_map": lambda _: passing(numbers().flat_map(asleep).batch(4, steps=9)),
    "generator": lambda _: passing(ps.from_iterable(items, spool=False, samples=100).batch(4)),
    "objects": lambda _: passing(ps.from_dataset(Items()).batch(4)),
    "generator that is spooled": lambda _: lambda: ps.from_iterable(items),
    # The last: the thread that is left behind works on, and would be taken for work of the cases after it.
    "batch_at decodes one long image": decoding_long,
}


def interrupted(work: Callable[[], object]) -> str:
    """The exception's name, and seconds of work and of time after Ctrl-C."""
    at: list[float] = []

    def press() -> None:
        _begun.wait()
        time.sleep(0.3)
        at.extend((time.process_time(), time.monotonic()))
        os.kill(os.getpid(), signal.SIGINT)

    pressing = threading.Thread(target=press, daemon=True)
    pressing.start()
    ended_by = "nothing"
    try:
        work()
    except BaseException as error:
        ended_by = type(error).__name__
    said = f"{ended_by} {time.process_time() - at[0]:.2f} {time.monotonic() - at[1]:.2f}"
    pressing.join()
    return said


def main(folder: str, *cases: str) -> None:
    """One case after the other, and then what a process does that does not catch it, where the test would not wait for the function."""
    global _sleeps_s
    signal.signal(signal.SIGINT, signal.default_int_handler)  # of tests that run in the background it is ignored
    for case in cases:
        _begun.clear()
        _over.clear()
        print(interrupted(CASES[case](Path(folder))), flush=True)
        _over.set()  # the functions that were left return
    _begun.clear()
    _over.clear()
    _sleeps_s = 1_000.0
    threading.Thread(target=lambda: (_begun.wait(), os.kill(os.getpid(), signal.SIGINT)), daemon=True).start()
    CASES["map"](Path(folder))()


if __name__ == "__main__":
    main(*sys.argv[1:])
