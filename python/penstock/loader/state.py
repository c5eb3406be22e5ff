"""A loader's state: where it stands, as JSON, and how it continues there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from penstock.core.arguments import is_whole
from penstock.core.columns.spec import Ids
from penstock.core.errors import StateError
from penstock.core.messages import quoted
from penstock.core.warnings import warn
from penstock.dataset import Dataset
from penstock.loader.changed_plan import ChangedPlan
from penstock.loader.rank import ThisRank
from penstock.loader.share import RankShare
from penstock.order.rows.lane_rows import LANE_ROWS
from penstock.order.steps.cursor import Position
from penstock.plan.saved import STATE_VERSION, check_state
from penstock.resolve.stream_state import check_streams, stream_entries
from penstock.stages.lanes.states import merge_states

#: Of states that say nothing of how rows are dealt: versions that know no more can load them.
_USUAL_VERSION = 2


def state_of(rank: ThisRank) -> dict[str, Any]:
    """See `Loader.state_dict`."""
    with rank.taking:
        if rank.ledger is not None:
            rank.ledger.flush()  # what a state counts as done is recorded
        share, here, places = rank.share, rank.here, rank.lane_places()
    on_error = rank.bad_samples.on_error
    return {
        "version": STATE_VERSION if "dealt" in share.entries else _USUAL_VERSION,
        "data": rank.dataset.digest,
        "samples": share.lowered.order.samples,
        **rank.saved_plan.on(share.world_size).entries,
        "epoch": here.epoch,
        "step": here.step,
        **({"lanes": places} if places else {}),
        **_ends_entry(share, here),
        **share.entries,
        **stream_entries(rank.dataset.root),
        **share.node,
        **({} if on_error == "raise" else {"on_error": on_error}),
    }


def load_state(rank: ThisRank, state: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, strict: bool) -> None:
    """See `Loader.load_state_dict`."""
    saved_plan = rank.saved_plan.on(rank.share_now().world_size)
    state = merge_states(state) if isinstance(state, (list, tuple)) else cast("Mapping[str, Any]", state)
    other_policy = _check_policy(rank.bad_samples.on_error, state)
    if begins_lanes := bool(other_policy) and rank.bad_samples.on_error == "skip":
        state = {**state, "lanes": {}}
    notes = check_state(state, state_of(rank), saved_plan, strict=strict)
    for note in [*notes, *([other_policy] if other_policy else [])]:
        warn(note)
    root, world_size = rank.dataset.root, rank.share.world_size
    changed = ChangedPlan.of_state(root, world_size, state)
    share = rank.share_with(changed)
    position = _position_of(state, share)
    check_streams(root, position)
    if begins_lanes:
        plain = Dataset(changed.applied(root, world_size)[0])
        state = {**state, "lanes": share.places_at(position, plain, state.get("on_error", "raise"))}
    places = rank.lanes_of(share, state["lanes"]) if share.lowered.lanes else {}
    _use_ends(share, position, state)
    with rank.taking:
        rank.loaded_lanes = None
        rank.use_share(share)
        rank.stop()
        rank.progress.load(position, steps=rank.share.most_steps(position.epoch))
        rank.share.lowered.lanes.begin(position, places)
        rank.loaded_lanes, rank.loaded_rows = state.get("lanes"), rank.share.lowered.order.batch_size
        if rank.ledger is not None:
            rank.ledger.load()


def _ends_entry(share: RankShare, here: Position) -> dict[str, Any]:
    """Where an epoch's equal parts are over: how many rows lanes give in it, as far as that is known and steps from here on follow from it."""
    if not share.lowered.lanes.has_ends:
        return {}
    order = share.lowered.lanes.order_of(here.epoch)
    if not here.step:
        return {}
    ends = order.ends
    if here.step < order.even_steps:
        if order.is_single:
            return {}
        ends = np.where(ends <= order.given_before(order.rows_before(here.step)), ends, LANE_ROWS)
    known = [lane for lane in range(order.lanes) if (ends[:, lane] < LANE_ROWS).any()]
    return {"ends": {str(lane): ends[:, lane].tolist() if len(ends) > 1 else int(ends[0, lane]) for lane in known}}


def _use_ends(share: RankShare, position: Position, state: Mapping[str, Any]) -> None:
    """The lanes of a state's epoch give as many rows as it says. StateError where others were counted here, or it was changed."""
    if "ends" not in state or not share.lowered.lanes.has_ends:
        return
    lanes = share.lowered.lanes
    known = lanes.order_of(position.epoch).ends.copy()
    found = _ends_of(state["ends"], known.shape)
    is_other = (found < LANE_ROWS) & (known < LANE_ROWS) & (found != known)
    for number, lane in np.argwhere(is_other)[:1].tolist():
        raise StateError(
            f"the state says that lane {lane} gives {found[number, lane]:,} rows in epoch {position.epoch:,}, and here it gives {known[number, lane]:,}; the data, or what a function looks at, is another: "
            f"go on with what was trained on, or start anew"
        )
    lanes.know(position.epoch, found)


def _ends_of(saved: Any, shape: tuple[int, ...]) -> Ids:
    """How many rows lanes of each stage give by a state, int64 (stages, lanes); StateError where it cannot be."""
    found, (stages, lanes) = np.full(shape, LANE_ROWS), shape
    entries: list[tuple[Any, Any]] = [*saved.items()] if isinstance(saved, dict) else [("", ())]
    for lane, rows in entries:
        each = rows if stages > 1 and isinstance(rows, list) else [rows]
        is_lane = isinstance(lane, str) and lane.isdecimal() and len(lane) < 20 and int(lane) < lanes
        if not is_lane or len(each) != stages or not all(is_whole(one) and 0 <= one <= LANE_ROWS for one in each):
            raise StateError(f"the state says {quoted(saved)} of where lanes end; it was changed")
        found[:, int(lane)] = each
    return found


def _position_of(state: Mapping[str, Any], share: RankShare) -> Position:
    """Where a state says that the loader stood; StateError where no epoch has such a step."""
    try:
        position = Position(int(state["epoch"]), int(state["step"]))
    except (TypeError, ValueError, OverflowError):
        raise StateError(
            f"the state says epoch {quoted(state['epoch'])}, step {quoted(state['step'])}; it was changed"
        ) from None
    lowered = share.lowered
    steps = share.most_steps(position.epoch)
    if not 0 <= position.epoch < 2**63 or not 0 <= position.step <= steps:
        raise StateError(
            f"the state says {quoted(position)}, but epochs have the steps 0 … {steps - 1}; it was changed"
        )
    if lowered.lanes.has_ends:
        return position
    if lowered.lanes and (position.epoch + 1) * steps * lowered.order.rows_per_lane >= LANE_ROWS:
        raise StateError(
            f"the state says epoch {position.epoch:,}, beyond the rows that a lane can count; it was changed"
        )
    return position


def _check_policy(here: str, state: Mapping[str, Any]) -> str:
    """What to say of a state whose run did otherwise about bad samples; StateError where this loader cannot go on with it."""
    saved = state.get("on_error", "raise") if isinstance(state, Mapping) else here
    if saved == "skip" != here:
        raise StateError(
            f"the state was saved with on_error='skip', where lanes stand where no step of on_error={here!r} begins; load it with on_error='skip', "
            f"or start anew"
        )
    if saved == here:
        return ""
    return f"the state was saved with on_error={saved!r}; training continues with {here!r}, which gives other batches where a sample is bad"
