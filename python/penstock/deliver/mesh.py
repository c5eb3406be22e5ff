"""A rank's share in a device mesh: ranks that differ only in other dimensions than the data's get the same rows."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

from penstock.core.errors import PlanError
from penstock.core.messages import quoted

_HOW = "Loader(…, mesh=mesh, data_dims='dp')"


@dataclass(frozen=True, kw_only=True)
class MeshShare:
    """rank, world_size: among the groups that get different rows. members: all ranks of the mesh, as numbers of the whole process group.

    is_first: whether this is the first of those that get its rows.
    """

    rank: int
    world_size: int
    members: tuple[int, ...]
    is_first: bool
    shown: str


def check_mesh(mesh: Any, data_dims: Any) -> tuple[str, ...]:
    """The names of the dimensions that divide the rows; PlanError for what is no torch DeviceMesh, or has no such dimensions."""
    if mesh is None:
        raise PlanError(f"data_dims={quoted(data_dims)} without a mesh; write {_HOW}")
    if type(mesh).__module__.partition(".")[0] in ("jax", "jaxlib"):
        raise PlanError(
            "mesh: this is a jax Mesh; with to='jax' pass the sharding of the rows, device=NamedSharding(mesh, PartitionSpec('data')), which says "
            "what each process gets"
        )
    module = sys.modules.get("torch.distributed.device_mesh")
    if module is None or not isinstance(mesh, module.DeviceMesh):
        raise PlanError(
            f"mesh={quoted(mesh)}: this is no DeviceMesh; make one with torch.distributed.device_mesh.init_device_mesh"
        )
    names = mesh.mesh_dim_names
    if names is None:
        raise PlanError("mesh: its dimensions have no names; pass mesh_dim_names=('dp', 'tp') to init_device_mesh")
    if data_dims is None:
        raise PlanError(
            f"mesh without data_dims; its dimensions are {', '.join(names)}: name those along which ranks get different rows, as {_HOW}"
        )
    wanted = (data_dims,) if isinstance(data_dims, str) else data_dims
    if not isinstance(wanted, (tuple, list)) or not wanted or not all(isinstance(name, str) for name in wanted):
        raise PlanError(f"data_dims={quoted(data_dims)}; pass a name or a tuple of names out of {', '.join(names)}")
    for name in wanted:
        if name not in names:
            raise PlanError(
                f"data_dims: the mesh has no dimension {quoted(name)}, but {', '.join(names)}; of a flattened one, name its parts"
            )
    if len(set(wanted)) < len(wanted):
        raise PlanError(f"data_dims={quoted(data_dims)} names a dimension twice; name each once")
    return tuple(name for name in names if name in wanted)


def share_in(mesh: Any, data_dims: tuple[str, ...]) -> MeshShare:
    """The share of this process; PlanError if it is not in the mesh. Data ranks count as the mesh does, its last dimension fastest."""
    sizes = dict(zip(mesh.mesh_dim_names, mesh.shape, strict=True))
    shown = f"mesh {' × '.join(f'{name}={size}' for name, size in sizes.items())}, data along {' and '.join(data_dims)}"
    place = mesh.get_coordinate()
    if place is None:
        raise PlanError(f"{shown}: this process is not in the mesh; create the loader on its ranks only")
    places = dict(zip(mesh.mesh_dim_names, place, strict=True))
    rank = 0
    for name in data_dims:
        rank = rank * sizes[name] + places[name]
    return MeshShare(
        rank=rank,
        world_size=math.prod(sizes[name] for name in data_dims),
        members=tuple(mesh.mesh.flatten().tolist()),
        is_first=not any(places[name] for name in places if name not in data_dims),
        shown=shown,
    )
