"""Ours and the peers from one S3 server, over a line where each request waits 30 ms and each connection carries 30 MB/s.

python benches/s3.py [--workload packed,large,small,connections] [--peers s3fs,litdata] [--rounds 2] [--seconds 8] [--faults] [--json FILE]

packed: 1.3 GB in objects of 5 MB; large: 2 GB in objects of 1 GB; small: 20,000 objects of 5 KB (--objects 200000 for the
whole); connections: ours and obstore alone with few of them, on the first two. Every run is a process of its own with empty caches; ours runs before each peer, and a ratio compares these two neighbours.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import obstore
from rich.console import Console
from rich.table import Table

import environments
import s3_store
from run import cpu_model
from s3_faults import under_faults
from side import Failed, Line, call
from work import HERE, interpreter, table_width, work_folder

LATENCY_MS, MB_PER_S = 30, 30
#: By workload: the peers that can read it, and what each of them reads.
PEERS = {
    "packed": {
        "mosaicml": "packed-mds",
        "litdata": "packed-litdata",
        "webdataset": "packed-tar",
        "s3fs": "packed-tar",
        "tfio": "packed-tfrecord",
    },
    "large": {
        "mosaicml": "large-mds",
        "litdata": "large-litdata",
        "webdataset": "large-tar",
        "s3fs": "large-tar",
        "tfio": "large-tfrecord",
    },
    "small": {"s3fs": ""},
}
OURS = {"packed": "packed-mds", "large": "large-mds"}
#: By data set: its format, samples and bytes of a shard. Beside these, "small-20000" and its like are so many objects of 5 KB.
DATA = {
    "packed-mds": ("mds", 12_800, 5_000_000),
    "packed-litdata": ("litdata", 12_800, 5_000_000),
    "packed-tar": ("tar", 12_800, 5_000_000),
    "packed-tfrecord": ("tfrecord", 12_800, 5_000_000),
    "large-mds": ("mds", 20_000, 1_000_000_000),
    "large-litdata": ("litdata", 20_000, 1_000_000_000),
    "large-tar": ("tar", 20_000, 1_000_000_000),
    "large-tfrecord": ("tfrecord", 20_000, 1_000_000_000),
}
#: Ways to read with few connections: by name, options of ours_s3.py. All that are shuffled hold as many bytes open.
WAYS = {
    "in order": ["--natural"],
    "shuffled": [],
    "shuffled, blocks of 80": ["--block-rows", "80", "--lanes", "8"],
    "shuffled, blocks of 160": ["--block-rows", "160", "--lanes", "4"],
}
WRITERS = {"mds": "mosaicml", "litdata": "litdata", "tar": "s3fs", "tfrecord": "tfio", "small": "s3fs"}


def write(name: str, root: Path) -> None:
    """Makes a data set unless it is there."""
    kind, samples, shard_bytes = DATA[name] if name in DATA else ("small", int(name.rpartition("-")[2]), 5_000)
    place, mark = root / s3_store.BUCKET / name, root / f"{name}.{samples}"
    if mark.exists():
        return
    environments.ensure(WRITERS[kind])
    print(f"{name}: writing …", flush=True)
    command = [str(interpreter(WRITERS[kind])), str(HERE / "peers" / "write_s3.py"), kind, str(place)]
    place.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([*command, str(samples), str(shard_bytes)], check=True, capture_output=True)
    mark.touch()


def ours(workload: str, seconds: float, *more: str, passes: int = 1) -> list[str]:
    """The command line of our side."""
    command = [sys.executable, str(HERE / "ours_s3.py"), "--workload", workload, "--seconds", str(seconds)]
    return [*command, "--passes", str(passes), *more]


def theirs(peer: str, workload: str, seconds: float) -> list[str]:
    """The command line of a peer's side."""
    command = [str(interpreter(peer)), str(HERE / "peers" / "feed_s3.py"), "--peer", peer]
    return [*command, "--workload", workload, "--seconds", str(seconds)]


def run(store: s3_store.Store, command: list[str], seconds: float) -> Line:
    """One side over the shaped line; its figures and the line's."""
    store.shape(LATENCY_MS, MB_PER_S)
    store.counts()
    line = call(command, timeout_s=60 + 4 * seconds)
    return line | {"line": store.counts()}


def signed_urls(store: s3_store.Store, prefix: str, to: Path) -> None:
    """Signed URLs of all objects, one a line, for what reads plain HTTP."""
    opened = store.open()
    names = [one["path"] for page in obstore.list(opened, prefix=prefix) for one in page]
    to.write_text("\n".join(obstore.sign(opened, "GET", names, expires_in=s3_store.SIGNED_FOR)))


def measure(arguments: argparse.Namespace, workload: str, console: Console) -> list[Line]:
    """All sides of one workload, in turn."""
    small = os.environ["PENSTOCK_BENCH_SMALL"] = f"small-{arguments.objects}"
    peers = {peer: name or small for peer, name in PEERS[workload].items() if peer in arguments.peers}
    root, names = work_folder() / "s3", {OURS.get(workload, small), *peers.values()}
    for name in names:
        write(name, root)
    lines: list[Line] = []
    with s3_store.store(root) as store, tempfile.TemporaryDirectory() as scratch:
        os.environ.update(store.environment, PENSTOCK_BENCH_URLS=f"{scratch}/urls.txt")
        for name in names:
            store.keep(f"{name}/")
        if "webdataset" in peers:
            signed_urls(store, f"{workload}-tar/", Path(scratch) / "urls.txt")
        if (
            workload == "small"
        ):  # the server takes long for a page of its listings: let the line know those of the peers too
            for peer in peers:
                environments.ensure(peer)
                call(theirs(peer, workload, 0.0), timeout_s=900)
        for _ in range(arguments.rounds):
            for peer in peers or [""]:
                mine = run(store, ours(workload, arguments.seconds), arguments.seconds)
                lines.append(mine | {"workload": workload})
                if not peer:
                    continue
                if reason := environments.ensure(peer):
                    console.print(f"{workload} {peer}: {reason}")
                    continue
                try:
                    line = run(store, theirs(peer, workload, arguments.seconds), arguments.seconds)
                except Failed as failure:
                    console.print(f"{workload} {peer}: {failure}")
                    continue
                ratio = mine["mb_per_s"] / line["mb_per_s"]
                flowing = mine["flowing_mb_per_s"] / line["flowing_mb_per_s"] if line["flowing_mb_per_s"] else ratio
                lines.append(line | {"workload": workload, "ratio": ratio, "flowing_ratio": flowing})
                console.print(
                    f"{workload} {peer}: {line['mb_per_s']:,.1f} MB/s, ours {mine['mb_per_s']:,.1f}: {ratio:.1f}"
                )
        lines += longer(store, arguments, workload)
    return lines


def longer(store: s3_store.Store, arguments: argparse.Namespace, workload: str) -> list[Line]:
    """What goes beyond one pass."""
    lines: list[Line] = []
    if workload == "packed" and "tfio" in arguments.peers:
        lines += several_passes(store, arguments)
    if workload in OURS:
        lines += client_alone(store, workload, min(10.0, arguments.seconds))
    if workload == "packed":
        lines += second_epoch(store, arguments.seconds)
    return lines


def connections(arguments: argparse.Namespace) -> list[Line]:
    """Ours and obstore's bare ranges with so many requests in flight and no more, from the first batch on: what of the line's rate arrives.

    In the data's order, and shuffled in blocks of 1 MB, and of 80 and 160 rows of 100 KB or a few more,
    as they divide objects best: a block is a request, or as many as it has objects or times 16 MB.
    """
    found = []
    root, seconds = work_folder() / "s3", min(10.0, arguments.seconds)
    with s3_store.store(root) as store:
        os.environ.update(store.environment)
        for workload, (way, chosen), requests in product(("packed", "large"), WAYS.items(), (8, 16)):
            write(OURS[workload], root)
            store.keep(f"{OURS[workload]}/")
            options = [*chosen, "--requests", str(requests)]
            line = run(store, ours(workload, seconds, *options, passes=9), seconds)
            found.append(few(line, requests, f"{workload}, {way}"))
        for (workload, size), requests in product((("packed", 5), ("large", 8), ("large", 16)), (8, 16)):
            options = ["--bytes", str(size * 1_000_000), "--requests", str(requests), "--seconds", str(seconds)]
            line = run(store, [sys.executable, str(HERE / "client_s3.py"), "--workload", workload, *options], seconds)
            found.append(few(line, requests, f"{workload}, ranges of {size} MB"))
    return found


def few(line: Line, requests: int, how: str) -> Line:
    """With what arrived of the rate of so many connections."""
    share = line["flowing_mb_per_s"] / (requests * MB_PER_S)
    return line | {"workload": "connections", "requests": f"{how}, {requests} in flight", "share": share}


def several_passes(store: s3_store.Store, arguments: argparse.Namespace) -> list[Line]:
    """Ours and tf.data for longer than a start and new memory count; the other peers keep copies, or are too slow to come this far."""
    found = []
    seconds = min(10.0, arguments.seconds)
    os.environ["PENSTOCK_BENCH_PASSES"] = "9"
    try:
        for _ in range(arguments.rounds):
            mine = run(store, ours("packed", seconds, passes=9), seconds)
            line = run(store, theirs("tfio", "packed", seconds), seconds)
            ratios = {name: mine[name] / line[name] for name in ("mb_per_s", "flowing_mb_per_s")}
            kept = {"ratio": ratios["mb_per_s"], "flowing_ratio": ratios["flowing_mb_per_s"]}
            found += [one | {"workload": "several passes"} for one in (mine, line | kept)]
    finally:
        del os.environ["PENSTOCK_BENCH_PASSES"]
    return found


def client_alone(store: s3_store.Store, workload: str, seconds: float) -> list[Line]:
    """What machine and line carry by obstore: ranges alone, with requests as long as a shuffled epoch's and longer ones, beside ours."""
    found = []
    for how, size, requests in (("shuffled", 1_000_000, 96), ("in order", 8_000_000, 32)):
        natural = ["--natural"] if how == "in order" else []
        options = ["--bytes", str(size), "--requests", str(requests), "--seconds", str(seconds)]
        command = [sys.executable, str(HERE / "client_s3.py"), "--workload", workload, *options]
        mine = run(store, ours(workload, seconds, *natural, passes=9), seconds)
        line = run(store, command, seconds)
        ratios = {name: mine[name] / line[name] for name in ("mb_per_s", "flowing_mb_per_s")}
        kept = {"ratio": ratios["mb_per_s"], "flowing_ratio": ratios["flowing_mb_per_s"]}
        found += [
            mine | {"workload": workload, "requests": f"{how}, several passes"},
            line | kept | {"workload": workload},
        ]
    return found


def second_epoch(store: s3_store.Store, seconds: float) -> list[Line]:
    """Ours from its cache on the local disk, in turn with the same files on that disk."""
    found = []
    for how in (["--second"], ["--local", str(work_folder() / "s3" / s3_store.BUCKET)]):
        line = run(store, ours("packed", seconds, *how, passes=100), seconds)
        found.append(
            line | {"workload": "second epoch", "requests": "from " + ("cache" if how[0] == "--second" else "files")}
        )
    return found


def row(workload: str, peer: str, lines: list[Line]) -> dict[str, Any]:
    """One side's medians."""
    ratios = [line["ratio"] for line in lines if "ratio" in line]
    return {
        "workload": workload,
        "peer": peer,
        "mb_per_s": median(line["mb_per_s"] for line in lines),
        "flowing_mb_per_s": median(line["flowing_mb_per_s"] for line in lines),
        "first_batch_s": median(line["first_batch_s"] for line in lines),
        "connections": median(line["line"]["connections"] for line in lines),
        "ours_to_this": median(ratios) if ratios else None,
        "ours_to_this_flowing": median(line["flowing_ratio"] for line in lines) if ratios else None,
        "share": median(line["share"] for line in lines) if "share" in lines[0] else None,
        "verdict": lines[-1].get("verdict"),
    }


def show(rows: list[dict[str, Any]], console: Console) -> None:
    """A table for people."""
    table = Table(
        "workload", "", "MB/s", "from the first batch on", "first batch, s", "connections", "ours / this", "of the line"
    )
    for one in rows:
        ratio = f"{one['ours_to_this']:.1f}, {one['ours_to_this_flowing']:.2f}" if one["ours_to_this"] else ""
        share = f"{one['share']:.0%}" if one["share"] else ""
        rates = (f"{one['mb_per_s']:,.1f}", f"{one['flowing_mb_per_s']:,.1f}")
        figures = (*rates, f"{one['first_batch_s']:.2f}", f"{one['connections']:.0f}")
        table.add_row(one["workload"], one["peer"], *figures, ratio, share)
    console.print(table)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Reading from S3 over a slow line: ours and the peers.")
    listed: Any = {"type": lambda text: [name for name in text.split(",") if name]}
    parser.add_argument("--workload", default=[*PEERS, "connections"], help=",".join(PEERS), **listed)
    parser.add_argument("--peers", default=["s3fs", "litdata", "mosaicml", "webdataset", "tfio"], **listed)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long a side runs at most")
    parser.add_argument("--objects", type=int, default=20_000, help="objects of the workload small")
    parser.add_argument("--faults", action="store_true", help="ours alone, while the line goes wrong")
    parser.add_argument("--json", type=Path, default=work_folder() / "s3.json", help="where the figures go")
    return parser.parse_args()


def main() -> None:
    """Measures, shows and writes the figures."""
    arguments, console = parse(), Console(width=table_width())
    if arguments.faults:
        result: dict[str, Any] = {"faults": under_faults(console)}
    else:
        lines = []
        for workload in arguments.workload:
            lines += connections(arguments) if workload == "connections" else measure(arguments, workload, console)
        groups: dict[tuple[str, str], list[Line]] = {}
        for line in lines:
            named = f"{line['peer']} {line.get('requests', '')}".strip()
            groups.setdefault((line["workload"], named), []).append(line)
        rows = [row(*names, found) for names, found in groups.items()]
        show(rows, console)
        result = {"rows": rows, "lines": lines}
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(
        json.dumps(result | {"cpu": cpu_model(), "cpus": len(os.sched_getaffinity(0)), "command": sys.argv}, indent=1)
    )
    console.print(f"Figures: {arguments.json}")


if __name__ == "__main__":
    main()
