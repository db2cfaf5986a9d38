"""Signals that end a command in good order, as Ctrl-C does; no effect outside the main thread."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_STDOUT, _STDERR = 1, 2


class SignalledError(KeyboardInterrupt):
    """SIGTERM or SIGHUP, handled like Ctrl-C."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Raise :class:`SignalledError` on the first SIGTERM or SIGHUP inside the context.

    Later ones are ignored; an ignored SIGHUP (``nohup``) stays so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    terminals = [stream for stream in (_STDOUT, _STDERR) if os.isatty(stream)]
    heeded = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is not signal.SIG_IGN]

    def end(number: int, _frame: FrameType | None) -> None:
        for each in heeded:
            signal.signal(each, signal.SIG_IGN)
        _leave_lost_terminals(terminals)
        raise SignalledError(signal.Signals(number).name)

    before = {number: signal.signal(number, end) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def block_signals() -> Iterator[None]:
    """Delay signals until the end of the block."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    came: list[int] = []
    # A mask of one thread leaves the signal to another one.
    before = {
        number: signal.signal(number, lambda number, _frame: came.append(number))
        for number in numbers
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


def detach_wakeup() -> None:
    """Stop signals from writing to the event loop that is about to close.

    asyncio closes the descriptor before it unregisters it; Python reports each signal in between on stderr.
    """
    if threading.current_thread() is threading.main_thread():
        signal.set_wakeup_fd(-1)


def _leave_lost_terminals(terminals: list[int]) -> None:
    """Redirect output to null if the terminal is gone, for the summary."""
    for stream in terminals:
        if not os.isatty(stream):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream)
            os.close(nowhere)
