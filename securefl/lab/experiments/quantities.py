"""Derived numbers of an experiment, and substitution of ``$names`` in overrides.

Papers give shares, honest workers and epochs; scenarios have parties and rounds.
"""

import math
from string import Template

from securefl.base.errors import ConfigError
from securefl.lab.experiments import experiment
from securefl.methods import attacks, privacy

_SLACK = 1e-9
"""Slack of floor: 3 * 0.1 / 0.3 is below 1 in floating point."""


def derive_quantities(values: experiment.Values) -> experiment.Values:
    """Return ``values`` with derived numbers; a given number is never replaced.

    ================ ======================== ==========================================================
    name             from                     meaning
    ================ ======================== ==========================================================
    ``byzantine``    ``honest``, ``share``    floor(honest share / (1 - share)): the workers that come on
                                              top so that ``share`` of all are Byzantine
    ``parties``      ``honest``, ``byzantine`` their sum
    ``gamma``        the same                 honest / parties
    ``minority``     the same                 the Byzantine workers, but fewer than half of all
    ``liars``        the same                 names of the last ``byzantine`` parties, as in a TOML list:
                                              for workers that show two behaviours
    ``clean``        the same and ``m``       probability that a random cluster of m holds no Byzantine
                                              worker; at least 1 / parties
    ``root``         ``honest``               its square root
    ``records``      ``train``, ``honest``    floor(train / honest), records of a worker
    ``rounds``       ``records``, ``epochs``, ceil(epochs records / batch)
                     ``batch``
    ================ ======================== ==========================================================

    Raises:
        ConfigError: a value is not a number, or out of range.
    """
    known = dict(values)
    if "honest" in known and "share" in known:
        honest, share = _number(known, "honest", least=1), _number(known, "share", least=0)
        if share >= 1:
            raise ConfigError(
                "values.share", f"is {share:g}, so no worker would be honest", "give less than 1"
            )
        known.setdefault("byzantine", math.floor(honest * share / (1 - share) + _SLACK))
        known.setdefault("parties", int(honest) + int(_number(known, "byzantine", least=0)))
        parties = int(_number(known, "parties", least=1))
        known.setdefault("gamma", honest / parties)
        byzantine = int(_number(known, "byzantine", least=0))
        last = attacks.party_names(parties)[parties - byzantine :]
        known.setdefault("liars", ", ".join(f"'{name}'" for name in last))
        known.setdefault("minority", min(parties - int(honest), (parties - 1) // 2))
        if "m" in known:
            odds = _all_honest(int(honest), parties, int(_number(known, "m", least=1)))
            known.setdefault("clean", max(odds, 1 / parties))
    if "honest" in known:
        known.setdefault("root", math.sqrt(_number(known, "honest", least=1)))
        if "train" in known:
            share_of = _number(known, "train", least=1) / _number(known, "honest", least=1)
            known.setdefault("records", math.floor(share_of))
    if {"records", "epochs", "batch"} <= known.keys():
        epochs, records = _number(known, "epochs", least=0), _number(known, "records", least=1)
        known.setdefault("rounds", privacy.steps_of_epochs(epochs, records, _number(known, "batch", least=1)))
    return known


def fill(overrides: experiment.Overrides, values: experiment.Values) -> experiment.Overrides:
    """Replace ``$name`` by its value in all overrides.

    Raises:
        ConfigError: no such value, or a ``$`` without a name.
    """
    known = derive_quantities(values)
    filled = []
    for override in overrides:
        try:
            filled.append(Template(override).substitute(known))
        except KeyError as error:
            there = ", ".join(f"${name}" for name in sorted(known))
            raise ConfigError(
                f"{override!r}", f"${error.args[0]} is not a value of this file", f"use {there}"
            ) from None
        except ValueError:
            raise ConfigError(
                f"{override!r}", "has a $ without a name", "write one behind it, as in $epsilon"
            ) from None
    return tuple(filled)


def _all_honest(honest: int, parties: int, m: int) -> float:
    return math.comb(honest, m) / math.comb(parties, m) if m <= parties else 0.0


def _number(values: experiment.Values, name: str, *, least: float) -> float:
    value = values[name]
    if isinstance(value, str) or not math.isfinite(value) or value < least:
        raise ConfigError(f"values.{name}", f"is {value!r}", f"give a number of at least {least:g}")
    return value
