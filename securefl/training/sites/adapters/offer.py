"""Sites named by ``--site``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NamedTuple, Optional


class Refused(Exception):  # noqa: N818 - an error that says what to do
    """Error of a user's app that cannot be a site, with a reason of one line and a remedy or ``""``."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(f"{reason} ({remedy})" if remedy else reason)
        self.reason, self.remedy = reason, remedy


class Given(NamedTuple):
    """Arguments for an app without its own parameters."""

    file: str = ""
    """Absolute path of the initial model's file."""
    partition: Optional[int] = None  # noqa: UP045 - Python 3.9
    """Index of the party in the scenario, from 0; None for another name."""
    partitions: int = 0
    """Number of parties."""
    first: bool = False
    """True if only the initial model is requested (``securefl site weights``)."""
    local: tuple[str, ...] = ()
    """Name patterns of arrays that are not sent."""


def offer(named: Any, module: ModuleType, party: str, given: Given) -> Any:
    """Return the site of ``party`` from the object ``named`` of ``module``.

    Raises:
        Refused: the app cannot be a site, or has no model.
        Exception: of the user's code.
    """
    if is_client_app(named):
        from .flower import FlowerSite  # noqa: PLC0415 - imports flwr

        if given.first:
            remedy = "name a function or class that makes its model, as in flower_app.task:Net"
            raise Refused("a Flower ClientApp has no parameters of its own", remedy)
        return FlowerSite(named, module, given)
    if given.first:
        from .first import first_model  # noqa: PLC0415 - imports numpy, after the memory limit is set

        return first_model(named, party, given.local)
    return named(party)


def is_client_app(named: Any) -> bool:
    """Return True for a Flower ``ClientApp``; this does not import flwr."""
    kinds = type(named).__mro__
    return any(kind.__name__ == "ClientApp" and kind.__module__.split(".")[0] == "flwr" for kind in kinds)


def samples_of(metrics: Mapping[str, Any], where: str, asked: Any) -> Any:
    """Return ``samples`` among the globals ``said`` of ``where``, or its result for the argument ``asked``.

    Raises:
        Refused: there is none.
    """
    found = metrics.get("samples")
    if found is None:
        reason = f"{where} does not say how many samples the party has"
        raise Refused(reason, "set samples there: a number, or a function that returns it; docs/adapters.md")
    return found(asked) if isinstance(found, Callable) else found  # type: ignore[arg-type]
