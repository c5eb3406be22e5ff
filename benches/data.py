"""Makes the bench data once: python benches/data.py [--peers tfdata,ffcv]. What is there already is kept; --again starts over.

The photographs and rows come first (photographs.py, in the environment "data"); then each peer writes the same bytes in its own format, in its own
environment: python benches/peers/feed_<peer>.py --write --workload <workload>.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from work import HERE, REPOSITORY, Data, data_folder, interpreter

#: Who writes copies of the photographs, rows and numbers of workloads (a), (b), (c) and tar.
WRITERS = ("tfdata", "dali", "ffcv", "webdataset", "mosaicml", "litdata")
COPIED = {"a", "b", "c", "tar"}
#: Who writes the files of a workload that has its own, for all sides.
AUTHORS = {
    "images-detection": "pytorch",
    "jsonl": "huggingface",
    "mds": "mosaicml",
    "parquet": "huggingface",
    "recordio": "mxnet",
    "sql": "pandas",
    **dict.fromkeys(["tables-recipe", "tables-profile", "tables-columns", "tables-row"], "sklearn"),
}


def make(root: Path, peers: Iterable[str]) -> None:
    """Photographs and rows, then these peers' copies. A peer without an environment is told and left out."""
    _once(root, "data", "data", [str(HERE / "photographs.py"), str(root)])
    for peer in peers:
        _once(root, peer, peer, _writing(root, peer, "a"))


def make_own(root: Path, workloads: Iterable[str]) -> None:
    """The files of workloads that have their own."""
    for workload in AUTHORS.keys() & set(workloads):
        peer = AUTHORS[workload]
        _once(root, peer, f"{peer}-{workload}", _writing(root, peer, workload))


def _writing(root: Path, peer: str, workload: str) -> list[str]:
    return [str(HERE / "peers" / f"feed_{peer}.py"), "--write", "--workload", workload, "--data", str(root)]


def _once(root: Path, environment: str, name: str, command: list[str]) -> None:
    """Run one writer in its environment unless its mark says that it is done."""
    mark = root / "done" / name
    python = interpreter(environment)
    if mark.exists():
        print(f"{name}: there already")
    elif not python.exists():
        print(f"{name}: left out, its environment is missing (make it: python benches/environments.py {environment})")
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
    parser.add_argument("--peers", default=",".join(sorted({*WRITERS, *AUTHORS.values()})), help="whose files to write")
    parser.add_argument("--data", type=Path, default=data_folder())
    parser.add_argument("--again", action="store_true", help="remove what is there first")
    arguments = parser.parse_args()
    if arguments.again:
        shutil.rmtree(arguments.data, ignore_errors=True)
    peers = [name for name in arguments.peers.split(",") if name]
    make(arguments.data, [name for name in WRITERS if name in peers])
    make_own(arguments.data, [workload for workload, author in AUTHORS.items() if author in peers])
    count = len(Data(arguments.data).jpegs())
    print(f"{count:,} photographs under {arguments.data}")


if __name__ == "__main__":
    main()
