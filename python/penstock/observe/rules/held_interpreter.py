"""The training loop holds the interpreter, so that the loader's threads wait for it."""

from __future__ import annotations

from penstock.observe.rules.finding import RuleFinding
from penstock.observe.rules.seen import SeenRun
from penstock.observe.snapshot import Advice

#: A thread that wants the interpreter waits so long, mostly; a loop that has it uses one CPU all of its step.
_WAITS_S, _COMPUTES = 0.002, 0.5


def held_interpreter(seen: SeenRun) -> RuleFinding | None:
    """The loop computes in Python, and other threads wait for the interpreter; no function of the user's needs it for longer."""
    snapshot, slow = seen.snapshot, seen.slowest
    waits_s = snapshot.machine.interpreter_wait_s
    loop_s, function_s = seen.step_s * snapshot.step_cpu, 0.0
    if slow.kind == "python" and snapshot.plan.functions.get(slow.name) != "process":
        function_s = slow.item_s.mean_s * slow.cpu * slow.items / max(1, snapshot.wait.count + 1)
    if (
        seen.is_fed
        or function_s > loop_s
        or snapshot.plan.isolation
        or waits_s < _WAITS_S
        or snapshot.step_cpu < _COMPUTES
    ):
        return None
    advice = Advice(
        rule="held_interpreter",
        evidence=f"a thread waits {1000 * waits_s:.1f} ms for Python's interpreter, and the loop computes {snapshot.step_cpu:.0%} of its step",
        remedy="the training loop holds the interpreter, which the loader's threads need between their native calls: make batches in a process of their own",
        change="Loader(…, isolation='process')",
        gain=seen.told(min(1 / (seen.rate * max(1e-9, loop_s, function_s)), seen.usable / max(0.1, seen.cores_used))),
    )
    return RuleFinding(
        bottleneck="interpreter",
        advice=advice,
        head=f"The training loop holds Python's interpreter: the consumer waited {seen.waited:.0%} of the time for data",
    )
