"""What `stats()` tells of actors, and what limits a loader whose batches they make."""

from __future__ import annotations

from penstock.observe.figure_groups import RayFigures, RayNodeFigures
from penstock.ray.leases import Leases
from penstock.ray.pool import ActorPool
from penstock.ray.rechecks import Rechecks
from penstock.ray.wanting import WAITS


def ray_figures(pool: ActorPool, leases: Leases, rechecks: Rechecks) -> RayFigures:
    """Actors, leases, and by node: actors, items, bytes, and seconds for which their items were waited for.

    users: loaders that share the actors. shared_items: items that actors gave to one more loader without making them again. leased_twice: items that another actor was asked for as well.
    """
    told = [actor.told for actor in [*pool.actors.values()] if actor.told is not None]  # another thread may ask
    names = dict.fromkeys([*sorted(one.node for one in told), *leases.node_items])
    return RayFigures(
        actors=len(pool.actors),
        actors_at_work=len(told),
        late_actors=len(pool.late),
        lost_actors=pool.lost,
        users=pool.users,
        leases=len(leases),
        leased_twice=leases.leased_twice,
        made_items=sum(one.made for one in told),
        shared_items=sum(one.shared for one in told),
        compared_items=rechecks.compared,
        bytes_by_node=dict(leases.node_bytes),
        nodes={
            node: RayNodeFigures(
                actors=sum(one.node == node for one in told),
                items=leases.node_items[node],
                bytes=leases.node_bytes[node],
                waited_s=leases.node_waited_s[node],
            )
            for node in names
        },
    )


def judged(figures: RayFigures, waited: float) -> tuple[str, str]:
    """The verdict in words, and what is the bottleneck."""
    if waited < WAITS:
        return f"Data is not the bottleneck: the consumer waited for it {waited:.1%} of the time.", "consumer"
    slowest = max(figures.nodes, key=lambda node: figures.nodes[node].waited_s, default="")
    text = (
        f"The bottleneck is the actors of Ray: the consumer waited {waited:.0%} of the time, longest for node {slowest}; ask for more of them (workers=…), or look at "
        "the link to that node."
    )
    return text, "actors"
