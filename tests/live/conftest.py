"""Fixtures of several live tests."""

from __future__ import annotations

import pytest

from tests.live.other_users import others_can_start_it


@pytest.fixture(scope="session")
def users() -> None:
    """Skip unless processes of other users can run; the check starts torch, so collection does without."""
    if not others_can_start_it():
        pytest.skip("root, setpriv and an interpreter for all users are needed")
