"""A report for people: the verdict, then one line for each stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from penstock.core.messages import plain_signs, printable
from penstock.observe.verdict import gain_words

#: Figures, or plain values of them.
Named: TypeAlias = Mapping[str, Any]
#: Requests to a store that are shown one by one.
_SHOWN_REQUESTS = 5


class PendingRequest(Protocol):
    """A request to a store that is not answered (see `storage.fetch.queue.UnansweredRequest`)."""

    @property
    def file(self) -> str:
        """The file's name."""

    @property
    def offset(self) -> int:
        """Its first byte."""

    @property
    def length(self) -> int:
        """How many bytes."""

    @property
    def since_s(self) -> float:
        """Seconds since it was made, 0 if it waits for its turn."""


def report_text(stats: Named) -> str:
    """The figures of `Loader.stats()` as text; also plain values of them."""
    lines = [str(stats["verdict"]), "", _summary(stats), "", _HEAD]
    rows = [_row(stage) for stage in stats["stages"]]
    found = lines + rows + _memory(stats) + _store(stats) + _decoders(stats) + _errors(stats) + _stalls(stats)
    found += _tuning(stats) + _functions(stats) + _ray(stats) + _ranks(stats) + _advice(stats)
    return plain_signs("\n".join(map(printable, found)))


_HEAD = f"{'stage':<22}{'samples/s':>12}{'MB/s':>9}{'busy':>7}{'input':>7}{'output':>8}{'queue':>7}{'threads':>9}"


def _summary(stats: Named) -> str:
    made = f"{stats['samples']:,} samples in {stats['elapsed_s']:.1f} s: {stats['samples_per_s']:,.0f} samples/s"
    return f"{made}; first batch after {stats['first_batch_s']:.3f} s; waited for data {stats['waited']:.1%}"


def _row(stage: Named) -> str:
    rates = f"{stage['name'][:21]:<22}{stage['samples_per_s']:>12,.0f}{stage['bytes_per_s'] / 1e6:>9,.1f}"
    times = f"{stage['busy']:>7.0%}{stage['waiting_for_input']:>7.0%}{stage['waiting_for_output']:>8.0%}"
    return f"{rates}{times}{stage['queue_depth']:>7}{stage['threads']:>9}"


def _memory(stats: Named) -> list[str]:
    memory = stats.get("memory")
    if not memory or not memory["budget_bytes"]:
        return []
    held, most, budget = (memory[f"{name}_bytes"] / 1e6 for name in ("held", "most", "budget"))
    return ["", f"memory: {held:,.1f} MB held, at most {most:,.1f} MB, of {budget:,.1f} MB"]


def _store(stats: Named) -> list[str]:
    store = stats.get("storage")
    if not store:
        return []
    again = f"{store['retries']:,} retries after errors, {store['hedges']:,} hedges of slow requests"
    times = ", ".join(f"{1000 * store[f'latency_p{share}_s']:,.0f} ms (p{share})" for share in (50, 95, 99))
    rate = f"{store['requests']:,} requests, {store['bytes'] / 1e6:,.1f} MB at {store['bytes_per_s'] / 1e6:,.1f} MB/s"
    flight = f"{store['in_flight']:.1f} in flight of {store['in_flight_limit']}"
    lines = ["", f"storage: {rate}, {flight}", f"  {again}; latency {times}"]
    if store["cache_hits"] + store["cache_misses"]:
        lines.append(
            f"  cache: {store['cache_hits']:,} hits, {store['cache_misses']:,} misses ({store['cache_hit_rate']:.1%}), "
            f"{store['cache_bytes'] / 1e6:,.1f} MB not downloaded"
        )
    if store["cache_damaged"]:
        lines.append(f"  cache: {store['cache_damaged']:,} damaged pieces on the disk, downloaded again")
    return lines


_DECODED = {
    "jpeg": "baseline JPEGs",
    "jpeg_entry_points": "baseline JPEGs from entry points",
    "jpeg_other": "other JPEGs",
    "other": "other formats",
}


def _decoders(stats: Named) -> list[str]:
    shown = [f"{count:,} {_DECODED.get(name, name)}" for name, count in stats.get("decoders", {}).items() if count]
    return ["", "images decoded: " + ", ".join(shown)] if shown else []


def _errors(stats: Named) -> list[str]:
    errors = stats.get("errors")
    if not errors or not errors["samples"]:
        return []
    sources = ", ".join(f"{count:,} of {source}" for source, count in errors["sources"].items())
    return ["", f"bad samples: {errors['samples']:,} ({sources}), met {errors['met']:,} times"]


def _stalls(stats: Named) -> list[str]:
    count = stats.get("stalls")
    return ["", f"stalls: {count:,}, of which the log (logger 'penstock') says what each stage did"] if count else []


def _tuning(stats: Named) -> list[str]:
    tuning = stats.get("tuning")
    if not tuning or not tuning["values"]:
        return []
    values = ", ".join(
        f"{name} {one['value']}{' (fixed)' if one['fixed'] else ''}" for name, one in tuning["values"].items()
    )
    if not tuning["decisions"]:
        return ["", f"tuning: {values}; nothing was changed"]
    last = tuning["decisions"][-1]
    change = f"{last['knob']} {last['from']} -> {last['to']} after {last['at_s']:.1f} s ({last['why']})"
    return ["", f"tuning: {values}; {tuning['changes']:,} changes, the last: {change}"]


def _functions(stats: Named) -> list[str]:
    return [
        f"{one['function']} runs {'in processes' if one['workers'] == 'process' else 'on threads'}: {one['why']}"
        for one in stats.get("functions", ())
    ]


def _ray(stats: Named) -> list[str]:
    """Actors of Ray (see `ray.figures`), then a line a node."""
    ray = stats.get("ray")
    if not ray:
        return []
    late, lost = (f"{ray[name]:,} {word}" for name, word in (("late_actors", "late"), ("lost_actors", "lost so far")))
    at_work = f"{ray['actors_at_work']:,} of {ray['actors']:,} at work"
    sharing = f"used by {ray['users']:,} loaders, {ray['shared_items']:,} items made once for several"
    counts = f"{ray['leases']:,} on their way, {ray['leased_twice']:,} asked of a second actor"
    lines = [
        "",
        f"actors of Ray: {at_work}, {late}, {lost}; {sharing}",
        f"  items: {counts}, {ray['compared_items']:,} compared",
    ]
    return lines + [
        f"  {node}: {one['actors']:,} actors, {one['items']:,} items, {one['bytes'] / 1e6:,.1f} MB, waited for {one['waited_s']:.1f} s"
        for node, one in ray["nodes"].items()
    ]


def _ranks(stats: Named) -> list[str]:
    """How differently ranks wait for data."""
    ranks = stats.get("ranks")
    if not ranks:
        return []
    first, last = min(ranks, key=lambda one: one["waited"]), max(ranks, key=lambda one: one["waited"])
    rates = [one["samples_per_s"] for one in ranks]
    spread = f"waited {first['waited']:.1%} (rank {first['rank']}) … {last['waited']:.1%} (rank {last['rank']}, {last['host']})"
    return ["", f"other ranks: {len(ranks):,} seen, {spread}; {min(rates):,.0f} … {max(rates):,.0f} samples/s"]


def _advice(stats: Named) -> list[str]:
    """What to do: why, the change, and what it gains."""
    advice = stats.get("advice")
    if not advice:
        return []
    lines = ["", "advice:"]
    for one in advice:
        gains = gain_words(one["gain"])
        lines.append(f"  {one['rule']}: {one['evidence']}")
        lines.append(f"    -> {one['change']}{f' ({gains})' if gains else ''}")
    return lines


def pending_text(requests: Sequence[PendingRequest]) -> str:
    """Requests that are not answered, those made longest ago first: how many, and the first of them; "" without any."""
    if not requests:
        return ""
    made = [request for request in requests if request.since_s > 0]
    lines = [f"requests to stores: {len(made):,} not answered, {len(requests) - len(made):,} wait for their turn"]
    lines += [
        f"  {one.file}, bytes {one.offset:,} … {one.offset + one.length:,}, for {one.since_s:.1f} s"
        for one in made[:_SHOWN_REQUESTS]
    ]
    return "\n".join(map(printable, lines))
