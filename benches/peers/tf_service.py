"""tf.data service on this machine, a process each: python tf_service.py dispatcher, and python tf_service.py worker localhost:1234."""

from __future__ import annotations

import os
import subprocess
import sys

import tensorflow as tf

service = tf.data.experimental.service
_served: list[subprocess.Popen[str]] = []


def distributed(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The dataset, made by a worker with all CPUs, as on a machine of its own. Its guide's settings for data that repeat: no sharding; nothing compressed, since there is no network."""
    dispatcher = start("dispatcher")
    start("worker", dispatcher)
    return dataset.apply(
        service.distribute(service.ShardingPolicy.OFF, f"grpc://{dispatcher}", job_name="bench", compression=None)
    )


def start(*role: str) -> str:
    """The address of a new process, which ends with this one."""
    process = subprocess.Popen(
        [sys.executable, __file__, *role], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    _served.append(process)
    assert process.stdout is not None
    return process.stdout.readline().strip()


def serve(role: str, dispatcher: str = "") -> None:
    """A dispatcher or a worker; prints its address, and ends with whoever holds its standard input."""
    if role == "dispatcher":
        server = service.DispatchServer()
        print(server.target.partition("://")[2], flush=True)
    else:
        server = service.WorkerServer(service.WorkerConfig(dispatcher_address=dispatcher))
        print(flush=True)
    sys.stdin.read()
    os._exit(0)  # a worker is in mid-batch


if __name__ == "__main__":
    serve(*sys.argv[1:])
