"""What other projects' tools say of loops with a known bottleneck, beside the loader's own verdict.

    python benches/environments.py observed                        # tf.data and TensorBoard's profiler, Ray Data, SPDL, LitData, PyTorch
    …/env/observed/bin/python benches/bottleneck_peers.py [--tools tfdata ray …] [--only NAME …] [--seconds 3] --json FILE
    python benches/bottleneck_peers.py --json FILE --beside BOTTLENECKS.json

The first runs those of the 24 pipelines of bottlenecks.py that need no device (peers/observed.py), each for some seconds, in the interpreter that it is started with. The second
runs nothing, and prints the table of docs/observe.md: of the copy to a device, it says in italics what the tools' documentation promises.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from bottleneck_store import running, slow_store

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "peers"))
TOOLS = {
    "tfdata": "tf.data's profiler",
    "ray": "Ray Data",
    "spdl": "SPDL",
    "litdata": "LitData",
    "torch": "torch.profiler",
}
#: Of what was not run, as there is no device here: what the documentation of each tool says that it shows.
DOCUMENTED = {
    "copy to the device": {
        "tfdata": "copies in the trace",
        "ray": "time in finalizing batches",
        "spdl": "times of the stage that copies",
        "litdata": "nothing",
        "torch": "`cudaMemcpyAsync`",
    }
}


def run(tool: str, seconds: float, names: list[str]) -> dict[str, Any]:
    """What a tool says, by loop. Loops beside the same programs and store share a process; what it leaves out, as it crashed, runs once more."""
    from observed import LOOPS

    found = dict[str, Any]()
    for _ in range(2):
        groups: dict[tuple[bool, str], list[str]] = {}
        for one in LOOPS:
            if one.name not in found and (one.name in names or not names):
                groups.setdefault((one.noisy, json.dumps(one.store)), []).append(one.name)
        for (noisy, store), those in groups.items():
            found |= _told(tool, seconds, those, json.loads(store), (os.cpu_count() or 1) * noisy)
    return found


def _told(tool: str, seconds: float, names: list[str], store: dict[str, float], burners: int) -> dict[str, Any]:
    command = [sys.executable, str(HERE / "peers" / f"observed_{tool}.py"), str(seconds), *names]
    with slow_store(store) as where, running([[sys.executable, "-c", "while True: pass"]] * burners):
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=600, env={**os.environ, **where}
        )
    if done.returncode:
        print(f"{tool} ended with {done.returncode}: {done.stderr[-500:]}", file=sys.stderr)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"name"')]
    return {one["name"]: one["says"] for one in lines}


# In words


def _tfdata(says: dict[str, Any]) -> str:
    if not says["is_input_bound"]:
        return "not input-bound"
    where, what = says["bottleneck"][0]
    kind = (re.search(r"<b>(.*?)</b>", where) or [""])[1]
    advice = re.sub(r"<.*?>|See here.*?details\.|\d\. ", " ", what).split(".")
    told = "" if what.startswith("See") else "; " + " ".join(advice[-2].split()) if len(advice) > 1 else ""
    return f"`{kind}`{told}"


def _ray(says: dict[str, Any]) -> str:
    stats = says["stats"]
    overall, blocked, first = (
        _seconds(stats, what)
        for what in (
            "Total time overall",
            "blocked by Ray Data iter_batches",
            "waiting for the first batch after starting iteration",
        )
    )
    begins = f"first batch after {first:.1f} s, then " if first > overall / 2 else ""
    steady = f"{begins}blocked {max(0.0, blocked - first) / max(1e-9, overall - first):.0%}"
    found = re.findall(
        r"Operator \d+ ([^:]*): .*?wall time:.*?, (\S+) mean.*?cpu time:.*?, (\S+) mean", stats, re.DOTALL
    )
    name, wall_s, cpu_s = max(
        ((name, _in_seconds(wall), _in_seconds(cpu)) for name, wall, cpu in found), key=lambda one: one[1]
    )
    return f"{steady}; a block of `{name}` {_ms(wall_s)}, {_ms(cpu_s)} on a CPU"


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:,.0f} ms"


def _seconds(stats: str, what: str) -> float:
    found = re.search(re.escape(what) + r": (\S+)", stats)
    return _in_seconds(found[1]) if found else 0.0


def _in_seconds(told: str) -> float:
    number, unit = re.fullmatch(r"([\d.]+)(\D*)", told).groups()  # type: ignore[union-attr]
    return float(number) * {"us": 1e-6, "ms": 1e-3, "s": 1.0}[unit]


def _spdl(says: dict[str, Any]) -> str:
    full = f"sink filled {says['sink']['occupancy_rate']:.0%} of the time"
    function = says.get("function")
    if function is None or "ave_time_s" not in function:
        return full
    return f"function {_ms(function['ave_time_s'])}; {full}"


def _litdata(says: dict[str, Any]) -> str:
    told = [(name.split(" ")[0], took_s) for name, took_s in says["functions"]]
    name, took_s = next((one for one in told if one[0] in _USERS), ("", 0.0))
    return f"a trace: `{name}` {took_s / max(1e-9, says['over_s']):.0%} of a worker's time" if name else "no trace"


#: Functions of peers/observed.py, as traces name them.
_USERS = {"decodes", "holds", "waits", "sorts", "adds", "computes", "normalizes"}
_USERS |= {f"{one}.__call__" for one in ("Loads", "Asks", "Opens", "Reads")} | {"Asks._ask", "Rows.__getitem__"}


def _torch(says: dict[str, Any]) -> str:
    waited = sum(share for name, _, share in says["events"] if "DataLoader" in name)
    return f"in the DataLoader {waited:.0%}"


_WORDS = {"tfdata": _tfdata, "ray": _ray, "spdl": _spdl, "litdata": _litdata, "torch": _torch}


def _words(tool: str, says: dict[str, Any]) -> str:
    if "ranks" not in says:
        return _WORDS[tool](says)
    return "; ".join(f"rank {rank}: {_WORDS[tool](says['ranks'][rank])}" for rank in (0, 2))


def table(found: dict[str, dict[str, Any]], pipelines: dict[str, Any]) -> str:
    """Markdown: a row a pipeline, a column a tool."""
    lines = [f"| pipeline | the loader | {' | '.join(TOOLS.values())} |", "| --- " * (len(TOOLS) + 2) + "|"]
    for name, one in pipelines.items():
        if "wanted" in one:
            told = [
                _words(tool, found[tool][name])
                if name in found.get(tool, {})
                else f"*{DOCUMENTED.get(name, {}).get(tool, 'not run')}*"
                for tool in TOOLS
            ]
            lines.append(f"| {name} | `{one['found']}`{'' if one['is_right'] else ' (wrong)'} | {' | '.join(told)} |")
    return "\n".join(lines)


def main() -> None:
    """Runs the tools, or prints what they said."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", nargs="+", default=[*TOOLS], choices=[*TOOLS])
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--json", required=True, type=Path)
    parser.add_argument("--beside", type=Path)
    told = parser.parse_args()
    kept = json.loads(told.json.read_text(encoding="utf-8")) if told.json.exists() else {}
    if told.beside is not None:
        print(table(kept, json.loads(told.beside.read_text(encoding="utf-8"))["found"]))
        return
    for tool in told.tools:
        kept[tool] = kept.get(tool, {}) | run(tool, told.seconds, told.only)
        told.json.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        print(f"{tool}: {len(kept[tool])} loops", flush=True)


if __name__ == "__main__":
    main()
