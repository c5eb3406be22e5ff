"""How much of the time of copies to the GPU overlaps with kernels, out of a trace of torch.profiler."""

from __future__ import annotations

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


def figures(events: Iterable[Mapping[str, Any]], images: int) -> dict[str, float]:
    """Of the events of a Chrome trace: the part of copies' time in which kernels of other streams ran, and bytes an image.

    A trace without copies to the device has the part 0.
    """
    spans: dict[str, list[tuple[Span, Any]]] = {"gpu_memcpy": [], "kernel": []}
    size_bytes = 0
    for event in events:
        is_copy = event.get("cat") == "gpu_memcpy"
        if event.get("cat") not in spans or (is_copy and "HtoD" not in event["name"]):
            continue
        begin = float(event["ts"])
        spans[event["cat"]].append(((begin, begin + float(event["dur"])), event["args"].get("stream")))
        size_bytes += int(event["args"].get("bytes", 0)) if is_copy else 0
    copy_streams = {stream for _, stream in spans["gpu_memcpy"]}
    copies = joined(span for span, _ in spans["gpu_memcpy"])
    kernels = joined(span for span, stream in spans["kernel"] if stream not in copy_streams)
    copy_us = sum(end - begin for begin, end in copies)
    return {
        "copies_overlapped": common(copies, kernels) / copy_us if copy_us else 0.0,
        "copy_us_per_image": copy_us / images,
        "copied_bytes_per_image": size_bytes / images,
    }
