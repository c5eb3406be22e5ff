"""Our JPEG decoder beside libjpeg-turbo's, bytes to RGB: python benches/jpeg_decode.py [DIR] [--rounds N] [--json].

The sides take turns picture by picture, on one thread; each picture is timed in CPU seconds of that thread, so that the machine's other work
counts little. A round's ratio is the other side's time over ours; the medians of the rounds are shown. All sides make the same pixels (accurate
integer DCT, triangle upsampling), which is checked first. Without DIR it makes 72 photographs of about 480×400, quality 90 to 97.

Needs simplejpeg and Pillow, and to make the photographs what tests/golden/make_jpegs.py names.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
import simplejpeg
from numpy.typing import NDArray
from PIL import Image

from penstock.core import kernels

ROOT = Path(__file__).resolve().parent.parent
Pixels = NDArray[np.uint8]


def ours(data: bytes) -> Pixels:
    return kernels.decode_image(data)


def by_simplejpeg(data: bytes) -> Pixels:
    return simplejpeg.decode_jpeg(data, colorspace="RGB", fastdct=False, fastupsample=False)


def by_pillow(data: bytes) -> Pixels:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


SIDES: dict[str, Callable[[bytes], Pixels]] = {"penstock": ours, "simplejpeg": by_simplejpeg, "pillow": by_pillow}


def photographs(directory: Path | None) -> list[bytes]:
    """The files of a directory, or photographs made for it."""
    if directory is None:
        directory = Path(os.environ.get("PENSTOCK_BENCH_DIR", ROOT / "benches" / ".work")) / "jpeg_decode"
        if not directory.exists():
            subprocess.run([sys.executable, ROOT / "tests/golden/make_jpegs.py", "bench", directory], check=True)
    return [path.read_bytes() for path in sorted(directory.rglob("*.jpg"))]


def timed_round(files: Sequence[bytes], number: int) -> dict[str, float]:
    """Seconds that each side takes for all files; the side that begins changes from file to file."""
    seconds = dict.fromkeys(SIDES, 0.0)
    names = list(SIDES)
    for place, data in enumerate(files):
        first = (place + number) % len(names)
        for name in names[first:] + names[:first]:
            began_at = time.thread_time()
            SIDES[name](data)
            seconds[name] += time.thread_time() - began_at
    return seconds


def report(files: Sequence[bytes], rounds: int) -> dict[str, object]:
    """Figures of all sides."""
    equal = {
        name: sum(np.array_equal(decode(data), ours(data)) for data in files)
        for name, decode in SIDES.items()
        if name != "penstock"
    }
    timed_round(files, 0)
    results = [timed_round(files, number) for number in range(rounds)]
    rows = [
        {
            "side": name,
            "version": version(name),
            "pictures_per_s": len(files) / statistics.median(result[name] for result in results),
            "ratio": statistics.median(result[name] / result["penstock"] for result in results),
            "ratios": [round(result[name] / result["penstock"], 3) for result in results],
            "equal_pictures": equal.get(name),
        }
        for name in SIDES
    ]
    return {
        "machine": {"cpu": cpu_name(), "cpus": os.cpu_count(), "python": platform.python_version()},
        "command": shlex.join(["python", *sys.argv]),
        "pictures": len(files),
        "bytes": sum(map(len, files)),
        "rounds": rounds,
        "rows": rows,
    }


def cpu_name() -> str:
    """The processor as Linux names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def main() -> None:
    parser = argparse.ArgumentParser(description="Our JPEG decoder beside libjpeg-turbo's.")
    parser.add_argument("directory", nargs="?", type=Path, help="JPEG files, searched through all subfolders")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    found = report(photographs(chosen.directory), chosen.rounds)
    if chosen.json:
        print(json.dumps(found, indent=1))
        return
    print(
        f"{found['pictures']} pictures, {found['bytes'] // found['pictures']:,} bytes each; {found['machine']['cpu']}"
    )
    print("| | pictures/s of one thread | penstock is … times as fast | same pixels |\n| --- | ---: | ---: | ---: |")
    for row in found["rows"]:
        mine = row["side"] == "penstock"
        ratio, equal = ("", "") if mine else (f"{row['ratio']:.2f}", f"{row['equal_pictures']} of {found['pictures']}")
        print(f"| {row['side']} {row['version']} | {row['pictures_per_s']:,.0f} | {ratio} | {equal} |")


if __name__ == "__main__":
    main()
