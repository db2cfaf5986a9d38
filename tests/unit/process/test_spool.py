"""Masked inputs in memory and on disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefl.base.errors import RunAbortedError
from securefl.runtime.process.server_process import SpoolingStore


@given(vectors=st.lists(st.binary(max_size=50), max_size=12), limit=st.integers(0, 200))
def test_every_vector_comes_back_as_it_was(vectors: list[bytes], limit: int) -> None:
    store = SpoolingStore(limit)
    handles = [store.put(vector) for vector in vectors]
    assert len(set(handles)) == len(handles)
    assert [store.get(handle) for handle in handles] == vectors
    assert store._end == sum(map(len, vectors)) - sum(map(len, store._memory.values()))
    assert sum(map(len, store._memory.values())) <= limit
    store.discard_all()


def test_the_memory_limit_is_exact(tmp_path: Path) -> None:
    store = SpoolingStore(10, tmp_path)
    store.put(b"x" * 10)
    assert store._end == 0
    store.put(b"y")
    assert store._end == 1
    store.discard_all()


def test_the_file_has_no_name_and_goes_with_the_store(tmp_path: Path) -> None:
    store = SpoolingStore(0, tmp_path)
    handle = store.put(b"masked" * 1000)
    assert list(tmp_path.iterdir()) == []
    assert store._file is not None
    assert os.fstat(store._file).st_mode & 0o777 == 0o600
    file = store._file
    store.discard_all()
    assert store._end == 0
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(file)
    with pytest.raises(KeyError):
        store.get(handle)
    again = store.put(b"next round")
    assert store.get(again) == b"next round"
    store.discard_all()


def test_a_full_disk_aborts_and_keeps_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SpoolingStore(0, tmp_path)
    kept = store.put(b"kept")

    def no_space(_handle: int, _data: bytes, _offset: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr("securefl.runtime.process.server_process.os.pwrite", no_space)
        with pytest.raises(RunAbortedError, match="the disk is too full for masked inputs"):
            store.put(b"one too many")
    assert store.get(kept) == b"kept"
    assert store.get(store.put(b"room again")) == b"room again"
    store.discard_all()


def test_a_missing_directory_aborts(tmp_path: Path) -> None:
    with pytest.raises(RunAbortedError, match="the disk is too full for masked inputs"):
        SpoolingStore(0, tmp_path / "gone").put(b"x")
