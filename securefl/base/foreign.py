"""Exceptions of code that is not ours: a site's training, a user's model, loss or data set."""

import threading


def pass_interrupt(error: BaseException) -> None:
    """Raise ``error`` again if it is the user's Ctrl-C: a KeyboardInterrupt in the main thread.

    Python delivers signals to the main thread only. Elsewhere a KeyboardInterrupt was raised by the code
    itself, and is a failure like any other.
    """
    if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
        raise error


def describe(error: BaseException) -> str:
    """Return the class and the text of an exception, on one line; its text may fail in turn."""
    try:
        text = str(error)
    except BaseException as second:
        pass_interrupt(second)
        text = "its text cannot be made"
    return f"{type(error).__name__}: {' '.join(text.split())}" if text else type(error).__name__
