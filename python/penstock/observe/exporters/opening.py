"""Opens the exporters that `observe=` names: "NAME" or "NAME:TARGET", ours or another package's."""

from __future__ import annotations

import importlib
import os
import re
import socket
from collections.abc import Callable
from typing import Any, TypeAlias

from penstock.core.errors import PenstockError, PlanError
from penstock.core.messages import quoted
from penstock.core.names import did_you_mean
from penstock.observe.exporters.protocol import Exporter
from penstock.observe.secrets import without_url_secrets

#: Makes an exporter of what follows the colon, "" without one.
OpenExporter: TypeAlias = Callable[[str], Exporter]

#: The entry-point group in which packages offer others, each an `OpenExporter`.
GROUP = "penstock.exporters"

#: The function of each module of this package; a module is imported when its exporter is asked for.
EXPORTERS = {
    "emf": "open_emf",
    "jsonl": "open_jsonl",
    "mlflow": "open_mlflow",
    "nvtx": "open_nvtx",
    "otel": "open_otel",
    "prometheus": "open_prometheus",
    "tensorboard": "open_tensorboard",
    "trace": "open_trace",
    "trackio": "open_trackio",
    "wandb": "open_wandb",
    "xprof": "open_xprof",
}

#: What stands in a target behind a comma where PENSTOCK_OBSERVE's form was passed; a word in braces.
_ANOTHER, _WORD = re.compile(rf",\s*({'|'.join(EXPORTERS)})\s*(?:[:,]|$)"), re.compile(r"\{[a-z_]+\}")


def open_exporter(text: str, rank: int = 0) -> Exporter:
    """The exporter that a text names, ready to take snapshots.

    `{rank}`, `{pid}` and `{host}` in a target stand for this process's. Raises PlanError for unknown names, and for targets that cannot be:
    a port that is taken, a folder that cannot be written, a package that is missing.
    """
    if not isinstance(text, str) or not text.strip():
        raise PlanError(f"observe={quoted(text)}: name an exporter, as in 'prometheus:9464' or 'jsonl:run.jsonl'")
    name, _, target = text.strip().partition(":")
    if (another := _ANOTHER.search(target)) is not None:
        raise PlanError(
            f"observe={name!r}: its target goes on with {another[1]!r}, which is another exporter; write each as a text of its own, observe=[…, …]"
        )
    open_one = _ours(name) if name in EXPORTERS else _of_others(name)
    for word, value in (("{rank}", rank), ("{pid}", os.getpid()), ("{host}", socket.gethostname())):
        target = target.replace(word, str(value))
    if name in EXPORTERS:
        if (unknown := _WORD.search(target)) is not None:
            raise PlanError(
                f"observe={name!r}: {unknown[0]} stands for nothing; there are {{rank}}, {{pid}} and {{host}}"
            )
        return open_one(target)
    return _checked(name, open_one, target)


def _ours(name: str) -> OpenExporter:
    found: OpenExporter = getattr(importlib.import_module(f"penstock.observe.exporters.{name}"), EXPORTERS[name])
    return found


def _of_others(name: str) -> OpenExporter:
    from importlib.metadata import entry_points  # a tenth of a second, for what is rarely asked

    others = {one.name: one for one in entry_points(group=GROUP)}
    if name not in others:
        known = sorted({*EXPORTERS, *others})
        raise PlanError(
            f"observe: no exporter {quoted(without_url_secrets(name))}; there are {', '.join(known)}{did_you_mean(name, known)}"
        )
    try:
        found: OpenExporter = others[name].load()
    except Exception as error:
        raise PlanError(
            f"observe={name!r}: the package that offers it cannot be imported ({error}); repair or remove it"
        ) from error
    return found


def _checked(name: str, open_one: Any, target: str) -> Exporter:
    """Another package's exporter, which has the two methods."""
    try:
        found = open_one(target)
    except PenstockError:
        raise
    except Exception as error:
        raise PlanError(f"observe={name!r}: {type(error).__name__}: {error}; see what its package says") from error
    for method in ("write", "close"):
        if not callable(getattr(found, method, None)):
            raise PlanError(
                f"observe={name!r}: {type(found).__name__} has no {method}(); an exporter has write(snapshot, events) and close()"
            )
    exporter: Exporter = found
    return exporter
