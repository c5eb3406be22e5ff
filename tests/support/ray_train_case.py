"""Elastic training on Ray Train: python -m support.ray_train_case FOLDER. A node is removed in mid-epoch, and another one added later.

Says what `penstock verify` finds, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

#: How soon Ray gives up a group of workers for which a node is missing, and looks after its workers; how soon it notices that a node is gone.
_WAITS = {"RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "20", "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "1"}
_NOTICES = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 1000, "health_check_failure_threshold": 5}
NODE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 100 << 20}
#: Slow steps until the cluster has grown again, which Ray looks for so often; then fast ones, and in any case so many.
STEP_S, EPOCHS, LOOK_S = 0.1, 10, 2.0


def wait_for(what: Callable[[], Any], seconds: float = 100.0) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it does not come"
        time.sleep(0.1)


def train(task: dict[str, Any]) -> None:
    """The example's, which Ray begins anew each time that workers go or come."""
    import ray_train

    step_s = 0.0 if (Path(task["folder"]) / "grown").exists() else STEP_S
    ray_train.train({**task, "step_s": step_s})


def main(folder: Path) -> None:
    os.environ.update(_WAITS)
    import ray
    import ray.train
    from ray.cluster_utils import Cluster
    from ray.train.torch import TorchTrainer

    from penstock.observe.ledger.verify import verify

    head = {**NODE, "include_dashboard": False, "_system_config": _NOTICES}
    # Nodes that see to their own end when this process exits can be begun in the main thread only.
    cluster = Cluster(initialize_head=True, head_node_args=head, shutdown_at_exit=False)
    other = cluster.add_node(**NODE)
    ray.init(address=cluster.address)

    def checkpoints() -> int:
        return len([*folder.glob("**/state.pt")])

    def node_goes_and_another_comes() -> None:
        wait_for(checkpoints)
        time.sleep(1.0)  # some steps behind the checkpoint
        cluster.remove_node(other, allow_graceful=False)
        wait_for(lambda: [*folder.glob("ledger/*-rank-00000-of-00001*")])
        before = checkpoints()
        wait_for(lambda: checkpoints() > before)
        cluster.add_node(**NODE)
        (folder / "grown").touch()

    changes = ThreadPoolExecutor().submit(node_goes_and_another_comes)
    TorchTrainer(
        train,
        train_loop_config={"epochs": EPOCHS, "folder": str(folder)},
        scaling_config=ray.train.ScalingConfig(num_workers=(1, 2), elastic_resize_monitor_interval_s=LOOK_S),
        run_config=ray.train.RunConfig(
            storage_path=str(folder), failure_config=ray.train.FailureConfig(max_failures=8)
        ),
    ).fit()
    changes.result(timeout=0)
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
