"""Where a loader stands, and how passes, `set_epoch` and `load_state_dict` move it."""

from __future__ import annotations

from penstock.order.steps.cursor import Position


class Progress:
    """The position of the next batch, and which of the passes may take it.

    A pass begins with the request for its first batch, where the position then is: until then it may still be moved.
    """

    def __init__(self) -> None:
        self.epoch, self.step = 0, 0
        self.untouched = True  # the position was set, and no batch has been taken since
        self.newest_pass = 0
        self.is_running = False  # the newest pass has begun, and has not ended
        self.ended_by = ""  # why passes before the newest one are over
        self._was_loaded = False
        self._was_asked_for = False  # the epoch, by `set_epoch`, since it was loaded
        self._finished_epoch: int | None = None  # the loaded position is also the end of this epoch

    @property
    def here(self) -> Position:
        """The position of the next batch; past the last step of an epoch while its pass has not ended."""
        return Position(self.epoch, self.step)

    @property
    def is_broken_off(self) -> bool:
        """Whether the next pass is the epoch after this one, some of whose batches were taken."""
        return self.step > 0 and not self.untouched

    def announce_pass(self) -> int:
        """The number of a new pass, which may take batches from now on; older ones may not."""
        self.ended_by = "another iteration began (a loader holds one position; make a second one)"
        self.newest_pass += 1
        self.is_running = False
        return self.newest_pass

    def begin_pass(self) -> None:
        """The newest pass begins: at a position that was set, or in the epoch after one that was broken off."""
        if self.is_broken_off:
            self.epoch, self.step = self.epoch + 1, 0
        self.is_running = True

    def finish_pass(self) -> None:
        """The newest pass has taken all batches of its epoch."""
        self.epoch, self.step = self.epoch + 1, 0

    def set_epoch(self, epoch: int, *, steps: int, keep_later: bool = False) -> None:
        """The next pass is this epoch: from a loaded position in it, if nothing was taken since, else from its beginning.

        keep_later: so does a loaded position in a later epoch stay.
        """
        loaded = self.untouched and self._was_loaded
        if loaded and epoch == self._finished_epoch:
            self._move(Position(epoch, steps), f"set_epoch({epoch}) was called")  # nothing is left of it
        elif loaded and (epoch == self.epoch or (keep_later and epoch < self.epoch)):
            self._was_asked_for = epoch == self.epoch
            return
        else:
            self._move(Position(epoch), f"set_epoch({epoch}) was called")
            self._was_loaded, self._finished_epoch = False, None

    def load(self, position: Position, *, steps: int) -> None:
        """The next pass continues here; the end of an epoch is the beginning of the next one."""
        finished = position.step == steps
        self._move(Position(position.epoch + 1) if finished else position, "load_state_dict(…) was called")
        self._was_loaded, self._finished_epoch = True, position.epoch if finished else None
        self._was_asked_for = False

    @property
    def may_be_finished(self) -> bool:
        """Whether the position was loaded, and nothing was taken since: where nobody knew how many steps its epoch has, it may be the end."""
        return self.untouched and self._was_loaded and self.step > 0 and not self._was_asked_for

    def _move(self, position: Position, called: str) -> None:
        if self.is_running:
            self.announce_pass()  # to nobody: the one that runs has ended
            self.ended_by = called
        self.epoch, self.step = position.epoch, position.step
        self.untouched = True
