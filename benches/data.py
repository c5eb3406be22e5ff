"""Makes the bench data once: python benches/data.py [--peers tfdata,ffcv]. What is there already is kept; --again starts over.

The photographs and rows come first (photographs.py, in the environment "data"); then each peer writes the same bytes in its own format, in its own
environment: python benches/peers/feed_<peer>.py --write.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from work import HERE, REPOSITORY, Data, data_folder, interpreter

WRITERS = ("tfdata", "dali", "ffcv", "webdataset", "mosaicml", "litdata", "grain", "huggingface", "mxnet", "pandas")


def make(root: Path, peers: tuple[str, ...], *, photographs: bool = True) -> None:
    """Photographs and rows, then every writer's copy. A peer without an environment is told and left out."""
    if photographs:
        _once(root, "data", [str(HERE / "photographs.py"), str(root)])
    for peer in peers:
        _once(root, peer, [str(HERE / "peers" / f"feed_{peer}.py"), "--write", "--data", str(root)])


def _once(root: Path, name: str, command: list[str]) -> None:
    """Run one writer in its environment unless its mark says that it is done."""
    mark = root / "done" / name
    python = interpreter(name)
    if mark.exists():
        print(f"{name}: there already")
    elif not python.exists():
        print(f"{name}: left out, its environment is missing (make it: python benches/environments.py {name})")
    else:
        print(f"{name}: writing …", flush=True)
        started = time.monotonic()
        log = root / "log" / f"{name}.txt"
        log.parent.mkdir(parents=True, exist_ok=True)
        surroundings = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(HERE)}
        with log.open("wb") as out:
            done = subprocess.run(
                [python, *command], env=surroundings, cwd=REPOSITORY, stdout=out, stderr=out, check=False
            )
        if done.returncode:
            print(f"{name}: failed, see {log}", *log.read_text().splitlines()[-3:], sep="\n  ", file=sys.stderr)
            return
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
        print(f"{name}: written in {time.monotonic() - started:.0f} s")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Make the bench data, once.")
    parser.add_argument("--peers", default=",".join(WRITERS), help="whose files to write")
    parser.add_argument("--data", type=Path, default=data_folder())
    parser.add_argument("--again", action="store_true", help="remove what is there first")
    arguments = parser.parse_args()
    if arguments.again:
        shutil.rmtree(arguments.data, ignore_errors=True)
    make(arguments.data, tuple(name for name in arguments.peers.split(",") if name))
    count = len(Data(arguments.data).jpegs())
    print(f"{count:,} photographs under {arguments.data}")


if __name__ == "__main__":
    main()
