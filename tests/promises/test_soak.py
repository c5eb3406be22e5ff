"""Training for an hour: the process holds no more memory, threads, processes and files at its end than after its first minutes."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from servers.http import http_server
from support.soak import make_data
from support.tries import TRIES

TESTS = Path(__file__).parent.parent
#: An hour in a long run; otherwise a few rounds, which show threads, processes and files that are left, and not memory.
SECONDS = 3600 if TRIES >= 1_000 else 1
#: Memory of allocators and caches goes up and down by so much.
SWAY = 1.05
SWAY_BYTES = 16 << 20
#: Memory that is shared with processes takes a file each, up to 16 a process; threads that end are seen for a moment.
SWAYS = {"threads": 4, "processes": 0, "files": 8}


@pytest.mark.long
@pytest.mark.timeout(SECONDS + 600)
def test_nothing_grows(tmp_path: Path) -> None:
    make_data(tmp_path)
    with http_server(tmp_path) as url:
        script = [sys.executable, "-m", "support.soak", str(tmp_path), str(SECONDS), url]
        ran = subprocess.run(script, cwd=TESTS, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    rounds = [json.loads(line) for line in ran.stdout.splitlines()]
    quarter = max(1, len(rounds) // 4)
    early, late = rounds[quarter : 2 * quarter], rounds[-quarter:]
    for what, sway in SWAYS.items():
        assert max(now[what] for now in late) <= max(now[what] for now in early) + sway, (what, rounds)
    if SECONDS >= 3600:
        before, after = (statistics.median(now["rss"] for now in some) for some in (early, late))
        assert after <= SWAY * before + SWAY_BYTES, rounds
