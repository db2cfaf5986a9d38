"""Exceptions of foreign code, such as a site's training or a user's model."""

import os
import sysconfig
import threading
import traceback
from pathlib import Path
from typing import Final

_OWN: Final = f"{Path(__file__).parents[1]}{os.sep}"
_LIBRARIES: Final = tuple(
    f"{sysconfig.get_path(kind)}{os.sep}" for kind in ("stdlib", "platstdlib", "purelib", "platlib")
)


def pass_interrupt(error: BaseException) -> None:
    """Raise ``error`` again if it is the user's Ctrl-C: a KeyboardInterrupt in the main thread.

    Signals reach the main thread only: elsewhere the code itself raised the KeyboardInterrupt.
    """
    if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
        raise error


def describe(error: BaseException) -> str:
    """Return place, class and text of an exception on one line, even if ``str`` fails."""
    try:
        text = str(error)
    except BaseException as second:
        pass_interrupt(second)
        text = "its text cannot be made"
    kind = type(error).__name__
    where = place_of(error)
    return f"{where + ': ' if where else ''}{kind}{': ' if text else ''}{' '.join(text.split())}"


def place_of(error: BaseException) -> str:
    """Return the place in foreign code where an exception began, as ``train.py:12 in fit``.

    That is the innermost frame outside of securefl, Python and installed packages. Code that is installed
    itself has the frame that securefl called. Empty if there is none.
    """
    frames = [
        (frame.f_code.co_filename, line, frame.f_code.co_name)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not frame.f_code.co_filename.startswith(("<", _OWN))
    ]
    foreign = [frame for frame in frames if not frame[0].startswith(_LIBRARIES)]
    if not frames:
        return ""
    file, line, function = foreign[-1] if foreign else frames[0]
    return f"{Path(file).name}:{line} in {function}"
