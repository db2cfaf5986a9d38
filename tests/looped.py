"""Many small cases of one statement in one test, which reports all that fail.

An item of pytest costs some milliseconds of collection, scheduling and reporting in each process, however
little it tests. :func:`looped` takes the place of ``pytest.mark.parametrize`` for cases that take less.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps

import pytest


def looped(names: str, cases: Iterable[object]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call a test once for each case, with the case as the arguments ``names`` (as ``"one, another"``).

    Cases of several names are tuples. Fixtures are shared by all cases, so that a test which changes them
    must be parametrised. A failure of one case is raised as it is, several as an ``ExceptionGroup``; each has
    its case as a note. A test without any case fails.
    """
    wanted = [name.strip() for name in names.split(",")]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        rows = tuple(cases)

        @wraps(test)
        def every(*given: object, **fixtures: object) -> None:
            assert rows, "no case"
            failed: list[Exception] = []
            for row in rows:
                values = row if len(wanted) > 1 else (row,)
                assert isinstance(values, tuple)
                try:
                    test(*given, **fixtures, **dict(zip(wanted, values, strict=True)))
                except (Exception, pytest.fail.Exception) as error:
                    # What `pytest.fail` and `pytest.raises` raise is no Exception, which groups have to hold.
                    one = error if isinstance(error, Exception) else AssertionError(str(error))
                    one.add_note(f"case: {names} = {row!r}")
                    failed.append(one)
            if len(failed) == 1:
                raise failed[0]
            if failed:
                raise ExceptionGroup(f"{len(failed)} of {len(rows)} cases failed", failed)

        signature = inspect.signature(test)
        others = [one for name, one in signature.parameters.items() if name not in wanted]
        vars(every)["__signature__"] = signature.replace(parameters=others)
        return every

    return decorate
