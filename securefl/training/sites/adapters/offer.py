"""Sites named by ``--site``: a maker of sites, a Flower app, or the source of an initial model."""

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
    """Index of the party among the names of the scenario, from 0; None for another name."""
    partitions: int = 0
    """Number of parties."""
    first: bool = False
    """True if only the initial model is requested, as by ``securefl site weights``."""
    local: tuple[str, ...] = ()
    """Name patterns of its arrays that are not sent."""


def offer(named: Any, module: ModuleType, party: str, given: Given) -> Any:
    """Return the site of ``party`` from the object ``named`` of ``module``.

    Raises:
        Refused: the app cannot be a site, or names no model.
        Exception: any exception of the user's code.
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


def samples_of(said: Mapping[str, Any], where: str, asked: Any) -> Any:
    """Return the number of samples that ``samples`` among the globals ``said`` states.

    Args:
        said: of the user's module or script.
        where: their origin, for errors.
        asked: argument of ``samples`` if it is a function.

    Raises:
        Refused: there is none.
    """
    found = said.get("samples")
    if found is None:
        reason = f"{where} does not say how many samples the party has"
        raise Refused(reason, "set samples there: a number, or a function that returns it; docs/adapters.md")
    return found(asked) if isinstance(found, Callable) else found  # type: ignore[arg-type]
