"""Work done a little ahead of whoever takes the results, on threads."""

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
    """Yield each of ``items`` with what ``work`` makes of it, in their order.

    With one thread nothing happens ahead, and all in the caller's thread. With more, each of them is limited
    to one torch thread, and at most ``threads + 1`` results are made or wait: memory stays bounded and no
    thread idles while the caller takes one. What ``work`` raises is raised here; the rest is then left
    undone, as when the caller takes no more.
    """
    if threads == 1:
        for item in items:
            yield item, work(item)
        return
    todo = iter(items)
    pending: deque[tuple[ItemT, Future[ResultT]]] = deque()
    # torch's limit is one of each thread where the linear algebra library is concerned.
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
