"""penstock trace merge: traces of Penstock and of PyTorch's profiler as one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.console import escape, out
from penstock.cli.opening import keep_inputs
from penstock.core.errors import PlanError
from penstock.core.files.whole import write_whole
from penstock.core.warnings import warn
from penstock.observe.trace_merge import merged, overlap_s, read_trace


def about_trace() -> None:
    """Work with the traces that `observe="trace:run.json"` writes.

    Examples:
      penstock trace merge run.json torch.json -o both.json
    """


def merge(
    traces: Annotated[list[str], typer.Argument(help="Traces of Penstock and of torch.profiler, plain or in gzip.")],
    output: Annotated[str, typer.Option("--output", "-o", help="The file to write.")],
) -> None:
    """Join traces on one time base, to look at with ui.perfetto.dev.

    Stages of loaders stand beside the operators and kernels of the training, and a wait for data beside the gap that it makes.

    Examples:
      penstock trace merge run.json torch.json -o both.json
    """
    if len(traces) < 2:
        raise PlanError(f"trace merge: {len(traces)} trace; name two or more, of Penstock and of torch.profiler")
    keep_inputs(Path(output), *map(Path, traces))
    found = [read_trace(path) for path in traces]
    whole = merged(found)
    write_whole(Path(output), json.dumps(whole).encode())
    for one in found:
        out.print(f"{escape(one.path)}: {len(one.events):,} events", soft_wrap=True)
    if not (shared_s := overlap_s(found)):
        warn("the traces do not overlap in time; were they written by one training, on machines whose clocks agree?")
    out.print(
        f"{escape(output)}: {len(whole['traceEvents']):,} events, {shared_s:,.3f} s of all of them at once",
        soft_wrap=True,
    )


TRACE_COMMANDS = {"merge": merge}
