"""Tokenise and pack, from JSON lines to batches of NumPy arrays: ours and Hugging Face datasets, with the same tokenizer and 2 processes or CPUs.

    python benches/tokenise_pack.py [--documents 24000] [--rounds 3] [--json FILE]

Documents that a script makes (`texts.py`); byte-level BPE of 8,192 tokens, trained on some of them (Hugging Face `tokenizers`, one file for both). Hugging Face: `load_dataset`,
`map(tokenise, batched=True, num_proc=2)`, `map(group_texts, …, num_proc=2)`, then NumPy batches, its cache empty at the beginning. Ours: `read(…).transform(text=Tokenize(…)).pack("tokens",
length=2048, window=100).batch(32, steps=…)` with `cpus=2`. Before, tokens alone of texts in memory, 1,000 in a call, with 2 CPUs: a loader of ours, `encode_batch_fast` of tokenizers, gigatoken, and `datasets.map` with 2
processes; ids of all are the same, which is looked at. Once with all that is made ready, and at the steady rate: what the same texts once more cost, or four times more for ours and gigatoken. `python benches/run.py --workload text` is this, too.
Sides are processes of their own that run in turn. Imports do not count. Ratios are of one round; the median counts.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

import environments
import texts
from run import cpu_model
from side import Failed, Line, call
from work import HERE, REPOSITORY, interpreter, table_width, work_folder

ENVIRONMENT = "tokenise"
PEER = "Hugging Face datasets"
TIMEOUT_S = 900
#: So many times the texts: what is between is the steady rate, without what is made ready, started and loaded first. Of those that take longer, twice.
LONG = {"penstock": 5, "tokenizers": 2, "gigatoken": 5, "datasets": 2}


def side(name: str, *arguments: object) -> Line:
    """One side once; the tree's Penstock is used, built for this Python."""
    script = HERE / "peers" / f"tokenise_{name}.py"
    path = f"PYTHONPATH={REPOSITORY / 'python'}"
    return call(["env", path, str(interpreter(ENVIRONMENT)), str(script), *map(str, arguments)], TIMEOUT_S)


def alone_of(folder: Path, engine: str) -> Line:
    """Tokens alone, and what further ones cost: of the texts once, and several times."""
    once, long = side("alone", folder, engine, 1), side("alone", folder, engine, LONG[engine])
    more = long["tokens"] - once["tokens"]
    cpu = [line["cpu_s_per_million"] * line["tokens"] for line in (once, long)]
    steady = {
        "steady_tokens_per_s": more / (long["seconds"] - once["seconds"]),
        "steady_cpu_s_per_million": (cpu[1] - cpu[0]) / more,
    }
    return once | steady


def of_round(folder: Path) -> dict[str, Line]:
    """All sides once. Hugging Face says how many tokens there are."""
    alone = [alone_of(folder, engine) for engine in LONG]
    if len({line.pop("digest") for line in alone}) > 1:
        raise Failed("gives other ids than the others")
    peer = side("huggingface", folder)
    ours = [side("penstock", folder, strategy, peer["tokens"]) for strategy in ("best_fit", "concat")]
    return {line["peer"]: line for line in (*alone, peer, *ours)}


_STEADY = (("steady_tokens_per_s", ",.0f"), ("steady_cpu_s_per_million", ".3f"))


def ratio(rounds: list[dict[str, Line]], name: str, figure: str) -> float:
    """How many times the peer's figure a side's is, the median of the rounds."""
    return median(found[name][figure] / found[PEER][figure] for found in rounds)


def shown(rounds: list[dict[str, Line]]) -> Table:
    """A line a side."""
    table = Table(
        "side",
        "tokens/s",
        "of Hugging Face's",
        "CPU s a million tokens",
        "of Hugging Face's",
        "steady tokens/s",
        "CPU s",
        "fill",
    )
    for name in rounds[0]:
        values = {
            figure: median(found[name][figure] for found in rounds)
            for figure in ("tokens_per_s", "cpu_s_per_million", "fill")
        }
        table.add_row(
            f"{name} {rounds[0][name]['version']}",
            f"{values['tokens_per_s']:,.0f}",
            f"{ratio(rounds, name, 'tokens_per_s'):.2f}×",
            f"{values['cpu_s_per_million']:.2f}",
            f"{ratio(rounds, name, 'cpu_s_per_million'):.2f}×",
            *(
                f"{median(found[name][one] for found in rounds):{kind}}" if one in rounds[0][name] else ""
                for one, kind in _STEADY
            ),
            f"{values['fill']:.1%}",
        )
    return table


def main() -> int:
    """1 if a side gave no figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=texts.DOCUMENTS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", nargs="?", type=Path, const=work_folder() / "tokenise_pack.json")
    arguments = parser.parse_args()
    if reason := environments.ensure(ENVIRONMENT):
        print(f"skipped, it {reason}")
        return 1
    folder = work_folder() / "data" / f"tokenise-{arguments.documents}"
    texts.write(folder / "documents", arguments.documents)
    try:
        rounds = [of_round(folder) for _ in range(arguments.rounds)]
    except Failed as failed:
        print(f"a side {failed}")
        return 1
    Console(width=table_width()).print(shown(rounds))
    if arguments.json:
        figures: dict[str, Any] = {"machine": {"cpu": cpu_model(), "cpus": os.cpu_count()}, "rounds": rounds}
        arguments.json.write_text(json.dumps(figures | {"documents": arguments.documents}, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
