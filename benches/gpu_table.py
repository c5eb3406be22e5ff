"""The figures of `make gpu` as Markdown. What was not measured is "none"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

BEGIN, END = "<!-- figures: written by make gpu -->", "<!-- end of figures -->"

#: Of a training: heading, name, how it is written.
TRAINING: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("images/s", "images_per_s", "{:,.0f}".format),
    ("on one resident batch", "alone_images_per_s", "{:,.0f}".format),
    ("lost to data", "lost_to_data", "{:.1%}".format),
    ("thread waits", "thread_waited", "{:.1%}".format),
    ("copies beside kernels", "copies_overlapped", "{:.1%}".format),
    ("pageable", "pageable_share", "{:.1%}".format),
    ("training's stream idle", "training_idle", "{:.1%}".format),
    ("bytes copied an image", "copied_bytes_per_image", "{:,.0f}".format),
    ("first batch, s", "first_batch_s", "{:.1f}".format),
    ("memory more, MB", "reserved_more_bytes", lambda size: f"{size / 1e6:,.0f}"),
)


def shown(found: dict[str, Any], name: str, write: Callable[[float], str]) -> str:
    value = found.get(name)
    return "none" if value is None else write(value)


def why_not(found: dict[str, Any]) -> str:
    """Why there are no figures; "" where there are."""
    for kind in ("left out", "failed"):
        if kind in found:
            lines = str(found[kind]).splitlines() or [""]
            return f"{kind}: {lines[0][:160]}".replace("|", "/")
    return ""


def table(results: dict[str, Any]) -> str:
    """All of it."""
    machine, checks = results["machine"], results["checks"]
    holds = sum("holds" in found for found in checks.values())
    what = f"{machine['gpu']}, {machine['cpus']} CPU cores, PyTorch {machine['torch']}"
    how = f"batches of {results['batch']}: {results['images'] or 'no images'}"
    lines = [
        f"{what}, {how}. Checks: {holds} of {len(checks)} hold.",
        *(["", *(f"- {name}: {why_not(found)}" for name, found in checks.items() if why_not(found))]),
        "",
        f"| training: loader | {' | '.join(heading for heading, *_ in TRAINING)} |",
        f"| --- |{' ---: |' * len(TRAINING)}",
    ]
    others = []
    for name, found in results["parts"].items():
        if ": " not in name:
            others.append(f"| {name} | {why_not(found) or ', '.join(_pairs(found))} |")
        elif why_not(found):
            lines.append(f"| {name} | {why_not(found)} |{' |' * (len(TRAINING) - 1)}")
        else:
            lines.append(f"| {name} | {' | '.join(shown(found, key, write) for _, key, write in TRAINING)} |")
    return "\n".join([*lines, "", "| besides | |", "| --- | --- |", *others])


def _pairs(found: dict[str, Any], before: str = "") -> list[str]:
    """Figures in words: "images_per_s 5,000"."""
    pairs = []
    for name, value in found.items():
        called = f"{before}{name}".replace("_", " ")
        if name == "report":
            continue
        if isinstance(value, dict):
            pairs += _pairs(value, f"{called}: ")
        elif isinstance(value, list):
            pairs += [
                text for one in value for text in (_pairs(one) if isinstance(one, dict) else [_written(called, one)])
            ]
        else:
            pairs.append(_written(called, value))
    return pairs


def _written(called: str, value: Any) -> str:
    if value is None:
        return f"{called}: none"
    if isinstance(value, bool):
        return called if value else f"not {called}"
    return (
        f"{called} {value:,.3g}"
        if isinstance(value, float) and abs(value) < 100
        else f"{called} {value:,.0f}"
        if isinstance(value, int | float)
        else f"{called} {value}"
    )


def written(page: str, text: str) -> str:
    """The page with `text` between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"
