"""What a loader's snapshots say of its plan."""

from __future__ import annotations

from penstock.core.files.setup_times import setup_times
from penstock.loader.options import LoaderOptions
from penstock.loader.share import RankShare
from penstock.observe.snapshot import PlanFacts
from penstock.plan.nodes.functions import FunctionVerb
from penstock.plan.tree import flow, leaves
from penstock.transform.function import name_of


def plan_facts(share: RankShare, options: LoaderOptions) -> PlanFacts:
    """Of a rank's share; arithmetic, and nothing is read."""
    root = share.dataset.root
    shards = [leaf.opened.source.manifest.shards for leaf in leaves(root)]
    files = sum(map(len, shards))
    functions = [node for node in flow(root) if isinstance(node, FunctionVerb)]
    return PlanFacts(
        batch_rows=share.batch_size,
        prefetch=options.prefetch,
        cpus=options.cpus,
        memory=options.memory_bytes,
        isolation=options.isolation is not None,
        files=files,
        file_bytes=sum(float(some.sizes.sum()) for some in shards) / max(1, files),
        functions={f"{node.verb} {name_of(node.function)}": node.workers for node in functions},
        setup=setup_times(),
    )
