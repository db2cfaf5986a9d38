"""Exceptions of foreign code, such as a site's training or a user's model."""

import threading


def pass_interrupt(error: BaseException) -> None:
    """Raise ``error`` again if it is the user's Ctrl-C: a KeyboardInterrupt in the main thread.

    Signals reach the main thread only: elsewhere the code itself raised the KeyboardInterrupt.
    """
    if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
        raise error


def describe(error: BaseException) -> str:
    """Return the class and text of an exception on one line, even if ``str`` fails."""
    try:
        text = str(error)
    except BaseException as second:
        pass_interrupt(second)
        text = "its text cannot be made"
    return f"{type(error).__name__}: {' '.join(text.split())}" if text else type(error).__name__
