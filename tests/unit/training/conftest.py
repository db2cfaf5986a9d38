from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from securefl.training.models.device import limit_threads


@pytest.fixture(autouse=True, scope="package")
def one_thread() -> Iterator[None]:
    """As in the programs: results then do not depend on the machine's number of cores."""
    before = torch.get_num_threads()
    limit_threads()
    yield
    torch.set_num_threads(before)
