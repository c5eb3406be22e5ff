"""The kinds of verbs: frozen descriptions, which check themselves and run nothing. What all of them say of themselves is in `plan.node`.

Leaves hold what was opened; every other node has `input`, or `inputs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from penstock.plan.node import Node as Node
from penstock.plan.nodes.batches import Batch as Batch
from penstock.plan.nodes.batches import BatchTokens as BatchTokens
from penstock.plan.nodes.batches import Bucket as Bucket
from penstock.plan.nodes.batches import Pad as Pad
from penstock.plan.nodes.columns import Cache as Cache
from penstock.plan.nodes.columns import Draws as Draws
from penstock.plan.nodes.columns import Follow as Follow
from penstock.plan.nodes.columns import Map as Map
from penstock.plan.nodes.columns import MapRows as MapRows
from penstock.plan.nodes.columns import MapVerb as MapVerb
from penstock.plan.nodes.columns import Select as Select
from penstock.plan.nodes.columns import Transform as Transform
from penstock.plan.nodes.columns import TransformBatch as TransformBatch
from penstock.plan.nodes.computed import WithColumns as WithColumns
from penstock.plan.nodes.joins import Concat as Concat
from penstock.plan.nodes.joins import Mix as Mix
from penstock.plan.nodes.joins import SourceColumn as SourceColumn
from penstock.plan.nodes.joins import Zip as Zip
from penstock.plan.nodes.joins import classes_of as classes_of
from penstock.plan.nodes.lanes import FilterFunction as FilterFunction
from penstock.plan.nodes.lanes import FlatMap as FlatMap
from penstock.plan.nodes.lanes import InLanes as InLanes
from penstock.plan.nodes.lanes import LaneNode as LaneNode
from penstock.plan.nodes.lanes import LaneOutput as LaneOutput
from penstock.plan.nodes.lanes import Pack as Pack
from penstock.plan.nodes.lanes import SkipBad as SkipBad
from penstock.plan.nodes.picked import Balance as Balance
from penstock.plan.nodes.picked import Deduplicate as Deduplicate
from penstock.plan.nodes.picked import Exclude as Exclude
from penstock.plan.nodes.picked import Filter as Filter
from penstock.plan.nodes.picked import Sample as Sample
from penstock.plan.nodes.picked import Sort as Sort
from penstock.plan.nodes.picked import Split as Split
from penstock.plan.nodes.picked import Subset as Subset
from penstock.plan.nodes.rows import Every as Every
from penstock.plan.nodes.rows import Repeat as Repeat
from penstock.plan.nodes.rows import Shard as Shard
from penstock.plan.nodes.rows import Shuffle as Shuffle
from penstock.plan.nodes.rows import Skip as Skip
from penstock.plan.nodes.rows import Take as Take
from penstock.plan.nodes.rows import check_seed as check_seed
from penstock.plan.nodes.sources import Opened as Opened
from penstock.plan.nodes.sources import Read as Read
from penstock.plan.nodes.words import describe as describe
from penstock.plan.nodes.words import digest as digest

#: A leaf of a plan: where rows come from.
Origin: TypeAlias = Read | LaneOutput


def of_all_ranks(nodes: Sequence[Node], world_size: int) -> tuple[Node, ...]:
    """The plan that all ranks follow together: a batch that counts rows per rank depends on how many they are."""
    return tuple(node.of_all(world_size) if isinstance(node, Batch) else node for node in nodes)
