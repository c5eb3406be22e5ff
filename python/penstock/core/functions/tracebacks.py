"""What users see of a traceback: their own frames."""

from __future__ import annotations

import os
from types import TracebackType

from penstock.core.errors import PenstockError

_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def users_part(error: BaseException) -> TracebackType | None:
    """The traceback of an error in a user's function from the function on, without the engine's frames before it.

    None for an error of ours in which no frame is the user's: its text says where. Errors of ours that are no `PenstockError` keep all frames.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_FOLDER):
        trace = trace.tb_next
    return trace if trace is not None or isinstance(error, PenstockError) else error.__traceback__
