"""Out of a trace of torch.profiler: how much of the time of copies to the GPU overlaps with kernels, what they read from, and where the training's stream is idle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

Span = tuple[float, float]


def joined(spans: Iterable[Span]) -> list[Span]:
    """The same times, without overlaps, ascending."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((begin, end))
    return found


def common(one: list[Span], other: list[Span]) -> float:
    """The time that lies in both; each as `joined` gives it."""
    total, first = 0.0, 0
    for begin, end in one:
        while first < len(other) and other[first][1] <= begin:
            first += 1
        for number in range(first, len(other)):
            if other[number][0] >= end:
                break
            total += min(end, other[number][1]) - max(begin, other[number][0])
    return total


def length(spans: list[Span]) -> float:
    return sum(end - begin for begin, end in spans)


def figures(events: Iterable[Mapping[str, Any]], images: int) -> dict[str, float | None]:
    """Of the events of a Chrome trace; None for what it does not show.

    copies_overlapped: the part of the copies' time in which kernels of other streams than theirs ran: theirs is the one with most bytes. pageable_share:
    the part of the bytes that came from memory that is not pinned. training_idle: of the stream with most kernels besides, the part of the time between its
    first and last in which none ran. kernel_us_per_image: kernels behind the copies, on their stream.
    """
    copies: dict[Any, list[Span]] = {}
    kernels: dict[Any, list[Span]] = {}
    copied, pageable = Counter[Any](), 0
    for event in events:
        begin = float(event.get("ts", 0))
        span, stream = (begin, begin + float(event.get("dur", 0))), event.get("args", {}).get("stream")
        if event.get("cat") == "kernel":
            kernels.setdefault(stream, []).append(span)
        elif event.get("cat") == "gpu_memcpy" and "HtoD" in event["name"]:
            size_bytes = int(event["args"].get("bytes", 0))
            copies.setdefault(stream, []).append(span)
            copied[stream] += size_bytes
            pageable += size_bytes if "Pageable" in event["name"] else 0
    side = max(copied, key=lambda stream: copied[stream], default=None)
    theirs = joined(span for stream, spans in kernels.items() if stream != side for span in spans)
    all_copies = joined(span for spans in copies.values() for span in spans)
    training = joined(max((spans for stream, spans in kernels.items() if stream != side), key=len, default=[]))
    total = sum(copied.values())
    return {
        "copies_overlapped": common(all_copies, theirs) / length(all_copies) if all_copies and theirs else None,
        "copy_us_per_image": length(all_copies) / images if all_copies else None,
        "copied_bytes_per_image": total / images if all_copies else None,
        "pageable_share": pageable / total if total else None,
        "training_idle": 1 - length(training) / (training[-1][1] - training[0][0]) if training else None,
        "kernel_us_per_image": length(joined(kernels[side])) / images if side in kernels else None,
    }
