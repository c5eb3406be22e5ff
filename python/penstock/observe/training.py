"""Which training this process belongs to, so that its ranks find each other's snapshots."""

from __future__ import annotations

import os

from penstock.observe.secrets import without_url_secrets

#: Letters of it; files of snapshots cut longer texts.
_LONGEST = 1_000
#: What launchers set alike in all processes of one training, and differently for the next: torchrun, SLURM, Open MPI, MPICH, PyTorch's rendezvous.
_NAMES = (
    ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT"),
    ("SLURM_JOB_ID", "SLURM_STEP_ID"),
    ("PMIX_NAMESPACE",),
    ("OMPI_MCA_ess_base_jobid",),
    ("PMI_JOBID",),
    ("MASTER_ADDR", "MASTER_PORT"),
)


def training_id() -> str:
    """The same text in all ranks of a training: $PENSTOCK_TRAINING, else what the launcher says, else the session of this terminal or job."""
    if told := os.environ.get("PENSTOCK_TRAINING"):
        return _told(told)
    for names in _NAMES:
        if all(name in os.environ for name in names):
            return _told(" ".join(f"{name}={os.environ[name]}" for name in names))
    return f"session={os.getsid(0)}" if hasattr(os, "getsid") else ""


def _told(text: str) -> str:
    """As it stands in files of snapshots, by which ranks compare it."""
    return without_url_secrets(text)[:_LONGEST]
