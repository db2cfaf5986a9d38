from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from securefl.training.sgd.prefetch import ahead


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_the_order_of_the_items(threads: int) -> None:
    assert list(ahead(lambda n: n * n, range(20), threads)) == [(n, n * n) for n in range(20)]
    assert list(ahead(lambda n: n, [], threads)) == []


@pytest.mark.parametrize("threads", [1, 2])
def test_no_more_is_begun_than_is_soon_taken(threads: int) -> None:
    begun: list[int] = []

    def items() -> Iterator[int]:
        for n in range(20):
            begun.append(n)
            yield n

    for taken, (item, _) in enumerate(ahead(lambda n: n, items(), threads), start=1):
        assert item == taken - 1
        assert len(begun) <= taken + threads


@pytest.mark.parametrize("threads", [1, 3])
def test_a_failure_is_raised_at_its_item(threads: int) -> None:
    def work(n: int) -> int:
        if n == 4:
            raise ValueError("four")
        return n

    results = ahead(work, range(100), threads)
    assert [next(results)[0] for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="four"):
        next(results)


def test_one_thread_is_the_callers() -> None:
    ((_, thread),) = ahead(lambda _: threading.current_thread(), [0], 1)
    assert thread is threading.current_thread()


PROGRAM = """
import torch
from securefl.training.sgd.prefetch import ahead
from securefl.training.models.device import limit_threads
limit_threads()
torch.manual_seed(0)
a, b, c = torch.randn(32, 784), torch.randn(64, 784), torch.randn(64)
product = lambda _item: torch.addmm(c, a, b.T).numpy().tobytes()
here = product(0)
print(all(there == here for _, there in ahead(product, range(4), 2)))
"""


def test_a_product_has_the_same_bits_in_every_thread() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "True"
