"""What a dashboard of Grafana asks Prometheus for."""

from __future__ import annotations

import json
from pathlib import Path

#: What Grafana puts for its variables where everything is chosen.
_CHOSEN = {"$job": ".*", "$rank": ".*", "$__rate_interval": "1m"}


def board_queries(path: Path) -> list[str]:
    """Every query of every panel, with all jobs and ranks chosen."""
    found = [target["expr"] for panel in json.loads(path.read_text())["panels"] for target in panel["targets"]]
    for name, value in _CHOSEN.items():
        found = [one.replace(name, value) for one in found]
    assert not [one for one in found if "$" in one], "a variable that the board does not have"
    return found
