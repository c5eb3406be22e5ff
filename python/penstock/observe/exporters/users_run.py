"""What exporters into the run that the user has begun with a tracker share. Trackers are not imported: who began a run has done it."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

from penstock.core.errors import PlanError
from penstock.core.installing import pip_install
from penstock.observe.exporters.shared import Shared, SharedThing

#: Loaders by the tracker and its run. Ending a run is the user's.
RUNS = Shared[SharedThing]()


def imported(exporter: str, package: str) -> ModuleType | None:
    """The tracker's module, None if the user has not imported it; PlanError if it is not installed."""
    found = sys.modules.get(exporter)
    if found is None and importlib.util.find_spec(exporter) is None:
        raise PlanError(f"observe={exporter!r}: {exporter} is missing; install it: {pip_install(package)}")
    return found


def no_run(exporter: str, begin: str) -> PlanError:
    """The error where the user has begun none."""
    return PlanError(f"observe={exporter!r}: no run is active; call {begin} before the loader is made")
