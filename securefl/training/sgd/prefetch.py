"""Work on threads ahead of the consumer."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from securefl.training import models

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


def ahead(
    work: Callable[[ItemT], ResultT], items: Iterable[ItemT], threads: int
) -> Iterator[tuple[ItemT, ResultT]]:
    """Yield each of ``items`` with the result of ``work``, in order.

    With one thread all work happens on demand in the caller's thread. With more, each has one torch thread,
    and at most ``threads + 1`` results are in progress or waiting. An exception of ``work`` or an early end
    of the iteration cancels the remaining work.
    """
    if threads == 1:
        for item in items:
            yield item, work(item)
        return
    todo = iter(items)
    pending: deque[tuple[ItemT, Future[ResultT]]] = deque()
    # In MKL torch's limit applies to each thread.
    with ThreadPoolExecutor(threads, initializer=models.limit_threads) as pool:
        try:
            for item in todo:
                pending.append((item, pool.submit(work, item)))
                if len(pending) > threads:
                    first, future = pending.popleft()
                    yield first, future.result()
            while pending:
                first, future = pending.popleft()
                yield first, future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
