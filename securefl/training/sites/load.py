"""Sites by name: ``module:name``, called with the party's name."""

import contextlib
from collections.abc import Callable
from typing import Any, TypeAlias

from securefl import scenario
from securefl.base import foreign
from securefl.base.entropy import Entropy
from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.methods import server_optimisers
from securefl.training import models
from securefl.training.sites.adapters.offer import Refused
from securefl.training.sites.layout import Layout, SiteError, is_count
from securefl.training.sites.site import Arrays, Site

SiteMaker: TypeAlias = Callable[[str], Site]
"""Class or function that makes a party's site from the party's name."""


def site_maker(name: str) -> SiteMaker:
    """Return the maker that ``module:name`` names.

    Raises:
        ConfigError: no such module or name, or it cannot be called.
    """
    made = import_named(name)
    if not callable(made):
        remedy = "name a class, or a function of the party's name"
        raise ConfigError(f"--site {name}", "is not a class or function", remedy)
    return made  # type: ignore[no-any-return]


def import_named(name: str) -> Any:
    """Return the object of ``module:name``, of any kind.

    Raises:
        ConfigError: no such module or name.
    """
    if name.count(":") != 1 or name.startswith(":") or name.endswith(":"):
        raise ConfigError("--site", f"{name!r} does not name a site", "write module:name, as in mysite:Site")
    try:
        return scenario.load_own(name)
    except ConfigError as error:
        raise ConfigError(f"--site {name}", error.reason, error.remedy) from error


def make_site(
    maker: SiteMaker,
    party: PartyId,
    layout: Layout,
    model: scenario.Model | None = None,
    entropy: Entropy | None = None,
) -> Site:
    """Make the site of ``party`` and check its samples and its parameters.

    ``layout`` is of the arrays that are sent. ``model`` may state the digest of frozen parameters.
    ``entropy`` seeds the generators while the site is made.

    Raises:
        ConfigError: as for :func:`open_site`; other trained or frozen parameters; or a buffer is not in
            ``model.averaged``.
    """
    with contextlib.nullcontext() if entropy is None else models.seeded_generators(_seed(entropy)):
        site, held = open_site(maker, party)
    try:
        layout.check(held, "parameters() returned")
    except SiteError as error:
        remedy = "train the arrays of model.file, which securefl site weights writes"
        raise ConfigError(_maker_name(maker), f"{party}: {error}", remedy) from error
    stated, found = getattr(model, "frozen_sha256", ""), getattr(site, "frozen_sha256", "")
    if stated and found != stated:
        kept = f"frozen parameters with the SHA-256 {found[:16]}..." if found else "no frozen parameters"
        reason = f"{party}: it has {kept}, the scenario states {stated[:16]}..."
        raise ConfigError(_maker_name(maker), reason, "start from the same base model as all other parties")
    for name in getattr(site, "averaged", ()):
        if not server_optimisers.is_averaged(name, layout.averaged):
            remedy = f'model.averaged = ["*running_mean", "*running_var", "{name}"]'
            reason = f"{party}: the buffer {name} travels, and the server's optimiser would act on it"
            raise ConfigError(_maker_name(maker), reason, remedy)
    return site


def open_site(maker: SiteMaker, party: PartyId) -> tuple[Site, Arrays]:
    """Make the site of ``party``; return it and the arrays that it trains.

    Raises:
        ConfigError: making it failed, or it lacks a member or samples.
    """
    maker_name = _maker_name(maker)
    try:
        site = maker(party)
        lacking = [name for name in ("samples", "parameters", "fit") if not hasattr(site, name)]
        samples, held = (0, {}) if lacking else (site.samples, site.parameters())
    except (ConfigError, Refused) as error:
        raise ConfigError(maker_name, f"{party}: {error.reason}", error.remedy) from error
    except BaseException as error:
        foreign.pass_interrupt(error)
        raise ConfigError(maker_name, f"{party}: {foreign.describe(error)}") from error
    if lacking:
        raise ConfigError(
            maker_name, f"has no {' and no '.join(lacking)}", "docs/sites.md says what a site offers"
        )
    if not is_count(samples) or not samples:
        raise ConfigError(
            maker_name, f"{party} has {samples!r} samples, expected a whole number of 1 or more"
        )
    return site, held


def _seed(entropy: Entropy) -> int:
    return int.from_bytes(entropy.child("site").draw(8), "big")


def _maker_name(maker: SiteMaker) -> str:
    module = getattr(maker, "__module__", "")
    return f"--site {module}{':' if module else ''}{getattr(maker, '__qualname__', maker)}"
