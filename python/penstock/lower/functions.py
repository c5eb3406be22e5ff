"""Users' functions: where each is called, and by how many threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from penstock.core.functions.event_loop import is_async
from penstock.lower.branch import Branch
from penstock.lower.context import Context
from penstock.plan.nodes import FilterFunction, FlatMap, Map, MapRows
from penstock.runtime.stage import Stage
from penstock.stages.call import ASYNC_CALLS, CALLS, FunctionCalls
from penstock.stages.call_function import CallFunction
from penstock.transform.function import BatchFunction, RowFunction, name_of

#: Threads for a user's function: at first, since it may hold the interpreter, and where it waits for something else.
_FIRST_FUNCTION_THREADS, _MOST_FUNCTION_THREADS = 4, 64


def lower_map(node: Map, inputs: Sequence[Branch], context: Context) -> Branch:
    """A function of batches."""
    (branch,) = inputs
    function = _function_of(node)
    threads = _threads_of(node, context)
    if is_async(node.function):  # of map_rows, many rows of a batch are awaited at once
        threads = {"threads": max(_most_calls(node, context), ASYNC_CALLS)}
    return _behind(branch, _stage_of(node, function, branch, context, threads), (node, function))


def lower_map_rows(node: MapRows, inputs: Sequence[Branch], context: Context) -> Branch:
    """A function of rows, of which some may be bad."""
    (branch,) = inputs
    function = RowFunction(node.function, node.verb)
    function.finds_all = context.bad is not None
    stage = _stage_of(node, function, branch, context, _threads_of(node, context))
    return _behind(branch, context.fallible(branch.sources, stage), (node, function))


def _behind(branch: Branch, stage: Stage, function: tuple[Map | MapRows, BatchFunction]) -> Branch:
    return replace(branch.then(stage), spec=None, indices=frozenset(), functions=(*branch.functions, function))


def _stage_of(
    node: Map | MapRows, function: BatchFunction, branch: Branch, context: Context, threads: dict[str, Any]
) -> Stage:
    work = CallFunction(
        branch.sources,
        _call_of(node, function, context),
        context.seed,
        node.draws,
        is_frozen=context.is_frozen,
    )
    return Stage(f"{node.verb} {name_of(node.function)}", "python", work, **threads)


def _threads_of(node: Map | MapRows, context: Context) -> dict[str, Any]:
    """How many threads call a function, and what a tuner may do: beyond the CPUs where it waits for something else. Processes compute."""
    threads = _most_calls(node, context)
    if "cpus" in context.fixed or context.is_described or node.workers == "auto":
        return {"threads": threads}
    if node.workers == "process":
        return {"threads": threads, "most": threads, "tuned_as": "process"}
    return {"threads": min(threads, _FIRST_FUNCTION_THREADS), "most": max(threads, _MOST_FUNCTION_THREADS)}


def _most_calls(node: Map | MapRows, context: Context) -> int:
    """Calls that may compute at once."""
    return context.where.cpus if node.workers == "thread" else context.workers.at_once


def call_of(node: FilterFunction | FlatMap, context: Context) -> FunctionCalls:
    """How the function of a lane stage is called."""
    return _call_of(node, _function_of(node), context)


def _function_of(node: Map | FilterFunction | FlatMap) -> BatchFunction:
    function = BatchFunction(node.function, node.verb)
    function.text = node.text
    return function


def _call_of(
    node: Map | MapRows | FilterFunction | FlatMap, function: BatchFunction, context: Context
) -> FunctionCalls:
    """On the stage's threads, or in processes."""
    here = CALLS[node.verb](function)
    if context.is_described or node.workers == "thread":
        return here
    if node.workers == "auto":
        return here if function.is_async else context.workers.either(function, node.verb, here)
    return context.workers.function(function, node.verb)
