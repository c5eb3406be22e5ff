"""Both sides of every pair of blocks in docs/migration: theirs in an environment of its own, ours here, on files that their own writers made.

    python benches/migration.py [webdataset mosaicml …]       all peers unless named; --json FILE
    python benches/migration.py --golden [webdataset …]       and what theirs gave becomes what the tests expect of ours

A line a pair. Ends with 1 if any two sides differ, or if one of them fails. A peer that can't be installed is skipped.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import environments
from work import REPOSITORY, interpreter, work_folder

sys.path.insert(0, str(REPOSITORY / "tests"))
from support.migration_pairs import ROWS, Pair, agree, pairs, peers, prepare, run

#: The tests run both sides of these.
IN_THE_TESTS = {"pytorch", "tfdata"}
Given = dict[str, Any]


def compare(peer: str) -> list[Given]:
    """What both sides of each pair give, and whether they agree."""
    folder = work_folder() / "migration" / peer
    shutil.rmtree(folder, ignore_errors=True)
    found = pairs(peer)
    theirs = run(interpreter(peer), [pair.theirs for pair in found], prepare(folder / "theirs"))
    ours = run(sys.executable, [pair.ours for pair in found], prepare(folder / "ours"))
    return [
        {"title": pair.title, "agree": agree(one, other), "theirs": one, "ours": other}
        for pair, one, other in zip(found, theirs, ours, strict=True)
    ]


def show(peer: str, given: Given) -> None:
    """A line, and of a difference both sides."""
    print(f"{peer}: {given['title']}: {'the same' if given['agree'] else 'DIFFERENT'}")
    if not given["agree"]:
        for side in ("theirs", "ours"):
            print(f"    {side}: {given[side] if isinstance(given[side], str) else json.dumps(given[side])}"[:1_000])


def keep(peer: str, found: list[Pair], given: list[Given]) -> None:
    """What theirs gave is from now on what the tests expect."""
    kept = json.loads(ROWS.read_text()) if ROWS.exists() else {}
    kept[peer] = {
        pair.title: {"block": pair.digest, "rows": one["theirs"]} for pair, one in zip(found, given, strict=True)
    }
    lines = [
        f" {json.dumps(name)}: {{\n"
        + ",\n".join(f"  {json.dumps(title)}: {json.dumps(rows)}" for title, rows in kept[name].items())
        + "\n }"
        for name in sorted(kept)
    ]
    ROWS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main() -> int:
    """The command line: 1 if two sides differ."""
    parser = argparse.ArgumentParser(description="Compare what the blocks of docs/migration give.")
    parser.add_argument("peers", nargs="*", metavar="PEER", help=f"which; all unless given: {', '.join(peers())}")
    parser.add_argument("--json", type=Path, help="write what both sides gave here")
    parser.add_argument("--golden", action="store_true", help="write what theirs gave for the tests")
    asked = parser.parse_args()
    if unknown := set(asked.peers) - set(peers()):
        parser.error(f"no page for {', '.join(sorted(unknown))}; there are {', '.join(peers())}")
    found: dict[str, Any] = {}
    for peer in asked.peers or peers():
        if reason := environments.ensure(peer):
            print(f"{peer}: skipped, it {reason}")
            found[peer] = {"skipped": reason}
            continue
        given = compare(peer)
        for one in given:
            show(peer, one)
        found[peer] = {"pins": environments.pins(peer).split(), "pairs": given}
        if asked.golden and peer not in IN_THE_TESTS and all(one["agree"] for one in given):
            keep(peer, pairs(peer), given)
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1))
    return int(any(not one["agree"] for peer in found.values() for one in peer.get("pairs", [])))


if __name__ == "__main__":
    sys.exit(main())
