"""Sites named by ``--site``: a maker of sites, a Flower app, or what a model begins with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NamedTuple, Optional


class Refused(Exception):  # noqa: N818 - an error that says what to do
    """A user's app cannot be a site.

    Args:
        reason: one line.
        remedy: what to do, or empty.
    """

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(f"{reason} ({remedy})" if remedy else reason)
        self.reason, self.remedy = reason, remedy


class Given(NamedTuple):
    """What an app is told that does not bring its own parameters."""

    file: str = ""
    """Of the first model, absolute."""
    partition: Optional[int] = None  # noqa: UP045 - Python 3.9
    """The party's place among the names of the scenario, from 0; None for another name."""
    partitions: int = 0
    """How many parties there are."""
    first: bool = False
    """Only the first model is asked for, as by ``securefl site weights``."""
    local: tuple[str, ...] = ()
    """Patterns of names of arrays in it that do not travel."""


def offer(named: Any, module: ModuleType, party: str, given: Given) -> Any:
    """The site of ``party``.

    Args:
        named: what ``module:name`` names.
        module: the module of that.
        party: its name.
        given: for apps.

    Raises:
        Refused: the app cannot be one, or names no model.
        Exception: whatever the user's code raises.
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
    """Whether it is a Flower ``ClientApp``; flwr is not imported to find out."""
    kinds = type(named).__mro__
    return any(kind.__name__ == "ClientApp" and kind.__module__.split(".")[0] == "flwr" for kind in kinds)


def samples_of(said: Mapping[str, Any], where: str, asked: Any) -> Any:
    """The number of samples that ``samples`` among the globals ``said`` states.

    Args:
        said: of the user's module or script.
        where: they are from, for errors.
        asked: the argument of ``samples`` where it is a function.

    Raises:
        Refused: there is none.
    """
    found = said.get("samples")
    if found is None:
        reason = f"{where} does not say how many samples the party has"
        raise Refused(reason, "set samples there: a number, or a function that returns it; docs/adapters.md")
    return found(asked) if isinstance(found, Callable) else found  # type: ignore[arg-type]
