"""observe="prometheus:9464": a port that Prometheus scrapes; "prometheus:metrics.prom": a file for the node exporter. The one importer of prometheus_client.

A scrape reads the newest snapshots; it never touches a loader.
"""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from penstock.core.errors import PlanError
from penstock.core.files.whole import write_whole
from penstock.core.installing import pip_install
from penstock.core.messages import quoted
from penstock.observe.events import Event
from penstock.observe.exporters.figures import FIGURES, Labels
from penstock.observe.exporters.files import cannot_be_written, local_path, open_file
from penstock.observe.exporters.protocol import Exporter
from penstock.observe.exporters.readings import FigureRead
from penstock.observe.exporters.shared import Shared, SharedThing, SharingExporter
from penstock.observe.snapshot import Snapshot

try:
    from prometheus_client import REGISTRY, CollectorRegistry, generate_latest, start_http_server
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
except ImportError as error:
    raise PlanError(
        f"observe='prometheus': prometheus-client is missing; install it: {pip_install('prometheus-client')}"
    ) from error

#: Of the ports that are given to what exports metrics, OpenTelemetry's.
_PORT = 9464
_LOOPBACK = "127.0.0.1"
#: "9464+" takes the first of so many ports that is free.
_TRIED = 64
_FORMS = "'prometheus:9464', 'prometheus:9464+' (the first free port from there on), 'prometheus:0.0.0.0:9464', 'prometheus:metrics.prom' or 'prometheus:registry'"


class NewestFigures(SharedThing):
    """What prometheus_client collects: the newest figures of each loader, by its number."""

    def __init__(self) -> None:
        self._newest: dict[int, tuple[Labels, list[FigureRead]]] = {}
        self._lock = threading.Lock()

    def put(self, number: int, rank: int, readings: list[FigureRead]) -> None:
        """Replaces a loader's figures."""
        with self._lock:
            self._newest[number] = (("loader", str(number)), ("rank", str(rank))), readings

    def left(self, number: int) -> None:
        """No scrape sees a closed loader's figures again."""
        with self._lock:
            self._newest.pop(number, None)

    def describe(self) -> Iterable[Metric]:
        """No names: what is registered elsewhere keeps its own, which begin with another word."""
        return []

    def collect(self) -> Iterator[Metric]:
        """A family a figure, of all loaders."""
        with self._lock:
            newest = sorted(self._newest.items())
        families: dict[str, Any] = {}
        for _, (of_loader, readings) in newest:
            for figure, labels, value in readings:
                names, values = zip(*of_loader, *labels, strict=True)
                name = figure.full_name
                if name not in families:
                    kind = CounterMetricFamily if figure.kind == "counter" else GaugeMetricFamily
                    families[name] = kind(f"penstock_{name}", figure.about, labels=names)
                families[name].add_metric(values, value)
        return iter([families[figure.full_name] for figure in FIGURES if figure.full_name in families])


class MetricsPort(NewestFigures):
    """A port on which they are served."""

    def __init__(self, host: str, port: int, *, is_first: bool) -> None:
        super().__init__()
        registry = CollectorRegistry()
        registry.register(self)
        for tried in range(port, min(port + _TRIED, 1 << 16) if is_first else port + 1):
            try:
                self._server, self._thread = start_http_server(tried, host, registry)
            except (OSError, OverflowError) as error:
                failed = error
                continue
            self.port = tried
            return
        raise _no_port(host, port, failed, is_first=is_first) from failed

    def end(self) -> None:
        """Stops to serve; a scrape that goes on is answered."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class MetricsFile(NewestFigures):
    """A file that is replaced with each snapshot, as the node exporter's textfile collector reads it."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        _refuse_anothers(path)
        os.close(open_file("prometheus", path, append=False))
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self.replace()

    def put(self, number: int, rank: int, readings: list[FigureRead]) -> None:
        """Replaces a loader's figures, and the file."""
        super().put(number, rank, readings)
        self.replace()

    def replace(self) -> None:
        """Writes the newest figures."""
        write_whole(Path(self.path), _written_by().encode() + generate_latest(self._registry))

    def left(self, number: int) -> None:
        """Its last figures stay."""

    def end(self) -> None:
        """Leaves the last figures there, without the process's name: another may go on."""
        write_whole(Path(self.path), generate_latest(self._registry))


class MetricsRegistry(NewestFigures):
    """The process's own registry, which the user serves."""

    def __init__(self) -> None:
        super().__init__()
        REGISTRY.register(self)

    def end(self) -> None:
        """Leaves it."""
        REGISTRY.unregister(self)


_OPEN = Shared[NewestFigures]()


class Prometheus(SharingExporter[NewestFigures]):
    """Figures at a port, in a file or in the registry of the process. The last loader that is closed closes the port; a file keeps its last figures."""

    def write(self, snapshot: Snapshot, events: list[Event]) -> None:
        """Puts the newest figures there."""
        place = self.place
        place.held.put(place.number, snapshot.loader.rank, place.readings.read(snapshot))


def _no_port(host: str, port: int, error: Exception, *, is_first: bool) -> PlanError:
    where = f"{host}:{port}" + (f" … {port + _TRIED - 1}" if is_first else "")
    if is_first:
        do = "name another port"
    else:
        do = f"name another one, or 'prometheus:{port}+' for the first free one from there on, of which each process takes its own"
    return PlanError(
        f"observe='prometheus': {where} cannot be served ({getattr(error, 'strerror', None) or error}); {do}"
    )


def _written_by() -> str:
    return f"# Written by process {os.getpid()} on {socket.gethostname()}\n"


def _refuse_anothers(path: str) -> None:
    """PlanError for a file that a process of this machine, which still runs, replaces."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            found = re.match(r"# Written by process (\d+) on (.*)\n", file.readline(500))
    except FileNotFoundError:
        return
    except OSError as error:
        raise cannot_be_written("prometheus", path, error) from error
    if found and found[2] == socket.gethostname() and int(found[1]) != os.getpid() and _runs(int(found[1])):
        raise PlanError(
            f"observe='prometheus': {path} is written by process {found[1]}; each process needs a file of its own, as 'prometheus:metrics-{{rank}}.prom'"
        )


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def open_prometheus(target: str) -> Exporter:
    """What follows the colon: a port, an address, a file, or "registry"."""
    if target == "registry":
        return Prometheus(_OPEN, "registry", MetricsRegistry)
    if target.endswith(".prom"):
        path = local_path("prometheus", target, "metrics.prom")
        return Prometheus(_OPEN, os.path.abspath(path), lambda: MetricsFile(path))
    host, port, is_first = _address(target)
    return Prometheus(_OPEN, f"{host}:{port}{'+' * is_first}", lambda: MetricsPort(host, port, is_first=is_first))


def _address(target: str) -> tuple[str, int, bool]:
    """_address("9464") == ("127.0.0.1", 9464, False)."""
    if not target:
        return _LOOPBACK, _PORT, False
    found = re.fullmatch(r"(?:(\[[0-9a-fA-F:.%]+\]|[^:/\s]+):)?([0-9]{1,5})(\+?)", target)
    if found is None or not 0 < int(found[2]) < 1 << 16:
        raise PlanError(f"observe={quoted(f'prometheus:{target}')}: is no port, address or file; write {_FORMS}")
    return (found[1] or _LOOPBACK).strip("[]"), int(found[2]), bool(found[3])
