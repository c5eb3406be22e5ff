"""Elastic training on Ray Train: python -m support.ray_train_case FOLDER. A node is removed in mid-epoch.

Says what `penstock verify` finds, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: How soon Ray gives up a group of workers for which a node is missing, and looks after its workers; how soon it notices that a node is gone.
_WAITS = {"RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "20", "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "1"}
_NOTICES = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 1000, "health_check_failure_threshold": 5}
NODE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 100 << 20}
STEP_S, EPOCHS = 0.05, 2


def wait_for(what: Callable[[], Any]) -> None:
    while not what():
        time.sleep(0.1)


def main(folder: Path) -> None:
    os.environ.update(_WAITS)
    import ray
    import ray.train
    import ray_train
    from ray.cluster_utils import Cluster
    from ray.train.torch import TorchTrainer

    from penstock.observe.ledger.verify import verify

    head = {**NODE, "include_dashboard": False, "_system_config": _NOTICES}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    other = cluster.add_node(**NODE)
    ray.init(address=cluster.address)

    def node_goes() -> None:
        wait_for(lambda: [*folder.glob("**/state.pt")])
        time.sleep(1.0)  # some steps behind the checkpoint
        cluster.remove_node(other, allow_graceful=False)

    threading.Thread(target=node_goes, daemon=True).start()
    TorchTrainer(
        ray_train.train,
        train_loop_config={"epochs": EPOCHS, "folder": str(folder), "step_s": STEP_S},
        scaling_config=ray.train.ScalingConfig(num_workers=(1, 2)),
        run_config=ray.train.RunConfig(
            storage_path=str(folder), failure_config=ray.train.FailureConfig(max_failures=8)
        ),
    ).fit()
    report = verify([str(folder / "ledger")])
    ledgers = sorted(path.name for path in folder.glob("ledger/*-rank-00000-*"))
    found = {
        "wrong": list(map(str, report.wrong)),
        "epochs": [(one.epoch, one.rows) for one in report.epochs],
        "world_sizes": [int(name.partition("-of-")[2][:5]) for name in ledgers],
        "steps_again": sum(one.steps_again for one in report.resumes),
    }
    print("found", json.dumps(found), flush=True)
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
