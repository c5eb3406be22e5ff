"""Rules that say what limits a training: one file each, and `RULES`, the first of which that finds something gives the verdict.

`seen` is what they look at (a snapshot, and what follows from it), `finding` what they find. Thresholds are those of XProf (waiting), SageMaker Debugger (cores, outliers, start) and SPDL's
guide (launches of kernels, neighbours), joined with the times of stages.
"""

from __future__ import annotations

from penstock.observe.rules.busy_cpus import busy_cpus
from penstock.observe.rules.device_copy import device_copy
from penstock.observe.rules.few_ahead import few_ahead
from penstock.observe.rules.files import files
from penstock.observe.rules.finding import Rule
from penstock.observe.rules.fixed_cpus import fixed_cpus
from penstock.observe.rules.function import function
from penstock.observe.rules.held_interpreter import held_interpreter
from penstock.observe.rules.kernel_launches import kernel_launches
from penstock.observe.rules.long_start import long_start
from penstock.observe.rules.memory_budget import memory_budget
from penstock.observe.rules.model import model
from penstock.observe.rules.noisy_neighbour import noisy_neighbour
from penstock.observe.rules.slow_rank import slow_rank
from penstock.observe.rules.slow_stage import slow_stage
from penstock.observe.rules.step_outliers import step_outliers
from penstock.observe.rules.store import store
from penstock.observe.rules.tiny_batches import tiny_batches

#: From what says most to what says least.
RULES: tuple[Rule, ...] = (
    slow_rank,
    long_start,
    step_outliers,
    kernel_launches,
    model,
    memory_budget,
    store,
    noisy_neighbour,
    tiny_batches,
    fixed_cpus,
    held_interpreter,
    function,
    few_ahead,
    files,
    device_copy,
    busy_cpus,
    slow_stage,
)
