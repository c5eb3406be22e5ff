"""What other projects' tools say of loops with a known bottleneck, beside the loader's own verdict.

    python benches/environments.py observed                        # tf.data and TensorBoard's profiler, Ray Data, SPDL, LitData, PyTorch
    …/env/observed/bin/python benches/bottleneck_peers.py [--tools tfdata ray …] [--seconds 3] --json FILE
    python benches/bottleneck_peers.py --json FILE --beside BOTTLENECKS.json

The first runs those of the 24 pipelines of bottlenecks.py that NumPy and Python make alone (peers/observed.py), each for some seconds, in the interpreter that it is started with. The second
runs nothing, and prints the table of docs/observe.md: of the rest, it says in italics what the tools' documentation promises.
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

HERE = Path(__file__).parent
TOOLS = {
    "tfdata": "tf.data's profiler",
    "ray": "Ray Data",
    "spdl": "SPDL",
    "litdata": "LitData",
    "torch": "torch.profiler",
}
_NOISY = "noisy neighbour"
_READS, _WAITS = "times of the reading {}", "that data is awaited"
_READING = {
    "tfdata": _READS.format("iterator"),
    "ray": _READS.format("operator"),
    "spdl": _READS.format("stage, its queue"),
    "litdata": "a trace of downloads",
    "torch": _WAITS,
}
_OP = {
    **_READING,
    "tfdata": "times of its iterator",
    "ray": "wall and CPU time of its operator",
    "spdl": "times of its stage, its queue",
    "litdata": "a trace of its worker",
}
#: Of what was not run: what the documentation of each tool says that it shows.
DOCUMENTED: dict[str, dict[str, str]] = {
    **dict.fromkeys(
        (
            "far store, memory=64MB",
            "full line",
            "throttled store",
            "small files in a store",
            "small requests to a store",
        ),
        _READING,
    ),
    "memory=5MB": {**_READING, "ray": "backpressure, and what was spilled"},
    "cold index": {
        **_READING,
        "tfdata": "nothing",
        "ray": "the wait for the first batch",
        "spdl": "nothing",
        "litdata": "nothing",
    },
    "small local files": _READING,
    "an op on text": _OP,
    "copy to the device": {
        "tfdata": "copies in the trace",
        "ray": "time in finalizing batches",
        "spdl": "times of the stage that copies",
        "litdata": "nothing",
        "torch": "`cudaMemcpyAsync`",
    },
    "one slow rank of four": {**dict.fromkeys(TOOLS, "each process alone"), "tfdata": "steps of each host"},
}


def run(tool: str, seconds: float) -> dict[str, Any]:
    """What a tool says, by loop."""
    found = dict[str, Any]()
    for names, burners in ((["--quiet"], 0), ([_NOISY], os.cpu_count() or 1)):
        others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(burners)]
        command = [sys.executable, str(HERE / "peers" / f"observed_{tool}.py"), str(seconds), *names]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        for one in others:
            one.kill()
            one.wait()
        for line in done.stdout.splitlines():
            if line.startswith('{"name"'):
                told = json.loads(line)
                found[told["name"]] = told["says"]
        if done.returncode:
            raise RuntimeError(f"{tool}: {done.stderr[-2000:]}")
    return found


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
    steady = f"blocked {max(0.0, blocked - first) / max(1e-9, overall - first):.0%}"
    longest = max(
        re.findall(r"Operator \d+ ([^:]*): .*?wall time:.*?, (\S+) mean.*?cpu time:.*?, (\S+) mean", stats, re.DOTALL),
        key=lambda one: _in_seconds(one[1]),
    )
    return f"{steady}; a block of `{longest[0]}` {longest[1]}, CPU {longest[2]}"


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
    return f"function {1000 * function['ave_time_s']:.3g} ms; {full}"


def _litdata(says: dict[str, Any]) -> str:
    if not says.get("functions"):
        return "no trace"
    name = next((one for one, _ in says["functions"] if one.split(" ")[0] in _USERS), "")
    return f"a trace, mostly `{name.split(' ')[0]}`" if name else "a trace"


#: Functions of peers/observed.py.
_USERS = {"decodes", "holds", "waits", "sorts", "adds", "computes", "Loads.__call__", "Rows.__getitem__"}


def _torch(says: dict[str, Any]) -> str:
    waited = sum(share for name, _, share in says["events"] if "DataLoader" in name)
    return f"in the DataLoader {waited:.0%}"


_WORDS = {"tfdata": _tfdata, "ray": _ray, "spdl": _spdl, "litdata": _litdata, "torch": _torch}


def table(found: dict[str, dict[str, Any]], pipelines: dict[str, Any]) -> str:
    """Markdown: a row a pipeline, a column a tool."""
    lines = [f"| pipeline | the loader | {' | '.join(TOOLS.values())} |", "| --- " * (len(TOOLS) + 2) + "|"]
    for name, one in pipelines.items():
        if "wanted" in one:
            told = [
                _WORDS[tool](found[tool][name])
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
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--json", required=True, type=Path)
    parser.add_argument("--beside", type=Path)
    told = parser.parse_args()
    kept = json.loads(told.json.read_text(encoding="utf-8")) if told.json.exists() else {}
    if told.beside is not None:
        print(table(kept, json.loads(told.beside.read_text(encoding="utf-8"))["found"]))
        return
    for tool in told.tools:
        kept[tool] = run(tool, told.seconds)
        told.json.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        print(f"{tool}: {len(kept[tool])} loops", flush=True)


if __name__ == "__main__":
    main()
