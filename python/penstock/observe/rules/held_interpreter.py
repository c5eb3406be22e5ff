"""The training loop holds the interpreter, so that the loader's threads wait for it."""

from __future__ import annotations

from penstock.observe.rules.finding import RuleFinding
from penstock.observe.rules.seen import ENOUGH, WAITS_S, SeenRun
from penstock.observe.snapshot import Advice

#: A loop that has the interpreter for this share of its step has it mostly.
_COMPUTES = 0.5


def held_interpreter(seen: SeenRun) -> RuleFinding | None:
    """The loop has the interpreter, and functions, or the loader's threads between their native calls, want it as well."""
    snapshot, loop, functions = seen.snapshot, seen.held_by_loop, seen.held_by_functions
    waits_s = snapshot.machine.interpreter_wait_s
    is_late = seen.waited >= ENOUGH and waits_s >= WAITS_S and snapshot.step_cpu >= _COMPUTES
    if functions > loop or snapshot.plan.isolation or not (seen.is_held or is_late):
        return None
    advice = Advice(
        rule="held_interpreter",
        evidence=f"a thread waits {1000 * waits_s:.1f} ms for Python's interpreter, which the loop holds {loop:.0%} of the time, and functions {functions:.0%}",
        remedy="the training loop holds the interpreter, which the loader's threads and functions need as well: make batches in a process of their own",
        change="Loader(…, isolation='process')",
        gain=seen.told(min(1 / max(1e-9, loop), seen.usable / max(0.1, seen.cores_used))),
    )
    return RuleFinding(
        bottleneck="interpreter",
        advice=advice,
        head=f"The training loop holds Python's interpreter: the consumer waited {seen.waited:.0%} of the time for data, and steps for the interpreter",
    )
