"""Joins traces in Chrome's format on one time base: ours with those of torch.profiler, or of several ranks."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.core.errors import DataError, SourceError, StorageError
from penstock.core.files.plain_file import open_plain

_GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class TraceRead:
    """A trace: its events, what else its file says, and from when its times count, in nanoseconds since 1970."""

    path: str
    events: list[dict[str, Any]]
    rest: dict[str, Any]
    base_ns: int

    def span_ns(self) -> tuple[int, int] | None:
        """From when to when it goes, in nanoseconds since 1970; None without any event that has a time."""
        begins = [(one["ts"], one.get("dur", 0)) for one in self.events if _is_number(one.get("ts"))]
        if not begins:
            return None
        ends = max(ts + (dur if _is_number(dur) else 0) for ts, dur in begins)
        return self.base_ns + int(min(begins)[0] * 1000), self.base_ns + int(ends * 1000)


def read_trace(path: str) -> TraceRead:
    """A trace file, also one in gzip. One of ours that was cut off when its process was killed is read up to there.

    Raises SourceError if it is not there, DataError if it is no trace, StorageError if it cannot be read.
    """
    try:
        with open_plain(path) as file:
            content = file.read()
    except FileNotFoundError:
        raise SourceError(f"{path}: no trace is there; Loader(…, observe='trace:{path}') writes one") from None
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}; name a trace that can be read") from error
    if content.startswith(_GZIP):
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{path}: damaged gzip ({error}); export the trace again") from error
    found = _parsed(path, content)
    rest = {name: value for name, value in found.items() if name != "traceEvents"} if isinstance(found, dict) else {}
    events = found.get("traceEvents") if isinstance(found, dict) else found
    if not isinstance(events, list):
        raise DataError(
            f"{path}: has no list of traceEvents; pass what torch.profiler's export_chrome_trace or observe='trace:FILE' wrote"
        )
    base = rest.get("baseTimeNanoseconds", 0)
    if not _is_number(base) or not 0 <= base < 1 << 63:
        raise DataError(f"{path}: baseTimeNanoseconds is {base!r:.80}, which is no time; export the trace again")
    return TraceRead(path, [one for one in events if isinstance(one, dict)], rest, int(base))


def _parsed(path: str, content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        lines = content.split(b"\n")
        # An event a line, of which the last was cut off.
        for kept in range(len(lines) - 1, max(0, len(lines) - 3), -1):
            whole = b"\n".join(lines[:kept]).rstrip().rstrip(b",")
            try:
                return json.loads(whole + b"\n]}")
            except (ValueError, RecursionError):
                continue
        raise DataError(
            f"{path}: is no JSON ({error}); pass what torch.profiler's export_chrome_trace or observe='trace:FILE' wrote"
        ) from error


def merged(traces: Sequence[TraceRead]) -> dict[str, Any]:
    """One trace of all, whose times count from the base of the first that has one; what else files say is of the first that says it."""
    base_ns = next((one.base_ns for one in traces if one.base_ns), 0)
    rest: dict[str, Any] = {}
    for one in traces:
        rest = {**one.rest, **rest}
    events = [moved for one in traces for moved in _moved(one, (one.base_ns - base_ns) / 1000)]
    return {**rest, "baseTimeNanoseconds": base_ns, "traceEvents": events}


def _moved(trace: TraceRead, later_us: float) -> list[dict[str, Any]]:
    if not later_us:
        return trace.events
    return [{**one, "ts": one["ts"] + later_us} if _is_number(one.get("ts")) else one for one in trace.events]


def overlap_s(traces: Sequence[TraceRead]) -> float:
    """For how long all of them go on at once."""
    spans = [one.span_ns() for one in traces]
    known = [span for span in spans if span is not None]
    if len(known) < len(spans):
        return 0.0
    return max(0, min(end for _, end in known) - max(begin for begin, _ in known)) / 1e9


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1 << 80
