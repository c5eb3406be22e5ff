"""examples/cluster/slurm.sbatch under a SLURM of one node: the job is requeued before its time is over, and goes on.

Needs `apt-get install slurm-wlm munge`, and to be root.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.observe.ledger.verify import verify
from support.own_session import TESTS

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not all(map(shutil.which, ("slurmctld", "slurmd", "munged"))) or os.geteuid() != 0,
        reason="SLURM is not installed (apt-get install slurm-wlm munge), or this is not root",
    ),
]
EXAMPLES = TESTS.parent / "examples" / "cluster"
CONFIGURATION = """
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmdPort={second}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
MpiDefault=none
JobRequeue=1
KillWait=10
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
"""


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment in which its commands find it."""
    host, port = socket.gethostname().partition(".")[0], 20_000 + os.getpid() % 10_000
    for name in ("state", "spool"):
        (tmp_path / name).mkdir()
    settings = tmp_path / "slurm.conf"
    text = CONFIGURATION.format(host=host, port=port, second=port + 1, folder=tmp_path, cpus=os.cpu_count())
    settings.write_text(text)
    (tmp_path / "cgroup.conf").write_text("CgroupAutomount=no\n")
    key = tmp_path / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    tmp_path.chmod(0o755)
    environment = {**os.environ, "SLURM_CONF": str(settings)}
    munge = ["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={tmp_path}/munge.socket"]
    munge += [
        f"--pid-file={tmp_path}/munge.pid",
        f"--log-file={tmp_path}/munge.log",
        f"--seed-file={tmp_path}/munge.seed",
    ]
    started = [subprocess.Popen(munge)]
    try:
        wait_for(tmp_path / "munge.socket")
        daemons = (["slurmctld", "-D", "-f", settings], ["slurmd", "-D", "-f", settings, "-N", host])
        started += [subprocess.Popen([str(word) for word in daemon], env=environment) for daemon in daemons]
        yield environment
    finally:
        subprocess.run(["scancel", "--user=root"], env=environment, check=False, timeout=20)
        time.sleep(2)
        for daemon in reversed(started):
            daemon.terminate()
        for daemon in reversed(started):
            daemon.wait(20)


def wait_for(path: Path, seconds: float = 120.0) -> None:
    until = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < until, f"{path} does not come"
        time.sleep(0.1)


def says(environment: dict[str, str], *command: str) -> str:
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=60).stdout


def test_a_job_is_requeued_and_goes_on(slurm: dict[str, str], tmp_path: Path) -> None:
    """The script gets its signal as `--signal=B:USR1@90` sends it; the second start runs to the end."""
    folder = tmp_path / "run"
    folder.mkdir()
    command = ["sbatch", "--parsable", "--nodes=1", "--ntasks-per-node=2", "--cpus-per-task=1", "--overcommit"]
    command += [f"--output={tmp_path}/job.log", f"--chdir={TESTS.parent}", str(EXAMPLES / "slurm.sbatch"), str(folder)]
    environment = {**slurm, "STEP_S": "0.1", "OMP_NUM_THREADS": "1"}
    job = says(environment, *command).strip()
    wait_for(folder / "state.pt")
    says(slurm, "scancel", "--batch", "--signal=USR1", job)
    until, state = time.monotonic() + 400, ""
    while state not in ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL"):
        assert time.monotonic() < until, says(slurm, "scontrol", "show", "job", job)
        time.sleep(1)
        words = says(slurm, "scontrol", "show", "job", job).split()
        state = next(word.partition("=")[2] for word in words if word.startswith("JobState="))
    log = (tmp_path / "job.log").read_text()
    assert state == "COMPLETED", log[-4000:]
    assert "Restarts=1" in words
    report = verify([str(folder / "ledger")])
    assert report.wrong == []
    assert [(one.epoch, one.rows) for one in report.epochs] == [(0, 4_800), (1, 4_800)]
    assert [one.steps_again for one in report.resumes if one.is_loaded] == [0]
