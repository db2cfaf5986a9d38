"""Exceptions of foreign code: a site's training, a user's model, loss or data set."""

import threading


def pass_interrupt(error: BaseException) -> None:
    """Raise ``error`` again if it is the user's Ctrl-C: a KeyboardInterrupt in the main thread.

    Python delivers signals to the main thread only. In another thread the code itself raised the
    KeyboardInterrupt, which is a failure like any other.
    """
    if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
        raise error


def describe(error: BaseException) -> str:
    """Return the class and text of an exception on one line, even if making its text fails."""
    try:
        text = str(error)
    except BaseException as second:
        pass_interrupt(second)
        text = "its text cannot be made"
    return f"{type(error).__name__}: {' '.join(text.split())}" if text else type(error).__name__
