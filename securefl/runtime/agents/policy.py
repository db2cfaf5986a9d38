"""Policy of a site: a file of the site's own, against which its agent checks each run."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final, Literal

from msgspec import Meta, field

from securefl.base import files, text
from securefl.base.errors import ConfigError
from securefl.scenario import OWN_NAME, FileTable, Scenario, read_table, rule_names, write_value

POLICY: Final = "policy.toml"
REPEATS: Final = "clusters.repeats: the run's metrics may reveal counts of this site"
_DIGEST: Final = re.compile("[0-9a-f]{64}")
_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_REMEDY: Final = "correct it, or move it away and write one by securefl agent KIT --write-policy"
Clock = Annotated[str, Meta(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")]
Real = Annotated[float, Meta(ge=0)]
Whole = Annotated[int, Meta(ge=0)]


class PrivacyRules(FileTable, frozen=True, kw_only=True):
    """Limits of privacy."""

    unit: Literal["party", "record", "any"] = "any"
    """Least protection: ``party`` hides all data of the site, ``record`` one record, ``any`` may be none."""
    run: Annotated[float, Meta(gt=0)] | None = None
    """Largest epsilon of one run."""
    budget: Annotated[float, Meta(gt=0)] | None = None
    """Largest epsilon of all runs on the site's data, counted by its account."""
    left: Real = 0.0
    """Least epsilon of ``budget`` that remains after a run."""
    delta: Annotated[float, Meta(gt=0, lt=1)] = 0.01
    """Largest delta of a run that one of the fields above limits; with more an epsilon means little."""

    @property
    def limited(self) -> bool:
        """True if a run needs a guarantee."""
        return self.unit != "any" or self.run is not None or self.budget is not None


class ClusterRules(FileTable, frozen=True, kw_only=True):
    """Limits of secure sums."""

    smallest: Whole = 0
    """Least ``clustering.size``."""
    survivors: Whole = 0
    """Fewest updates in an opened sum, ``secure_sum.min_survivors``."""
    colluders: Whole = 0
    """Least ``secure_sum.colluders_per_cluster``: sites of a sum that may collude with the server."""
    server: Literal["curious", "active"] = "curious"
    """``active``: refuse runs that trust the server to follow the protocol."""
    leakage: Literal["veto", "report"] = "veto"
    """``report``: allow runs whose sums may together reveal single updates."""
    repeats: Literal["refuse", "accept"] = "refuse"
    """``accept``: allow runs whose metrics may reveal counts of this site over rounds."""


class DeadlineRules(FileTable, frozen=True, kw_only=True):
    """Limits of time."""

    training: Annotated[float, Meta(gt=0)] | None = None
    """Largest ``deadlines.training``, s."""
    join: Annotated[float, Meta(gt=0)] | None = None
    """Largest ``deadlines.join``, s."""
    rounds: Annotated[int, Meta(ge=1)] | None = None
    """Largest ``stop.rounds``."""


class Hours(FileTable, frozen=True, kw_only=True):
    """Local times of the machine in which a run may take the site's data."""

    begin: Clock
    end: Clock
    """If before ``begin``, the time is of the next day."""
    days: tuple[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"], ...] = _DAYS
    """Days on which the hours begin."""

    def includes(self, local: datetime) -> bool:
        """Return True if a local time lies in these hours."""
        minute = local.hour * 60 + local.minute
        begin, end = (int(one[:2]) * 60 + int(one[3:]) for one in (self.begin, self.end))
        today = _DAYS[local.weekday()] in self.days
        yesterday = _DAYS[(local.weekday() - 1) % 7] in self.days
        if begin < end:
            return today and begin <= minute < end
        return (today and minute >= begin) or (yesterday and minute < end)


class SitePolicy(FileTable, frozen=True, kw_only=True):
    """Content of ``policy.toml``."""

    decision: Literal["accept", "ask"]
    """``accept``: take part in each run that keeps to this file. ``ask``: a person approves each one."""
    code: dict[str, str] = field(default_factory=dict)
    """Digest of the installed code by ``module:name``, of sites and of a scenario's own parts; other code is
    refused."""
    data: tuple[str, ...] = ()
    """Files of samples that built-in training may use."""
    rules: tuple[str, ...] = ()
    """Aggregation rules; empty for all."""
    privacy: PrivacyRules = PrivacyRules()
    clusters: ClusterRules = ClusterRules()
    deadlines: DeadlineRules = DeadlineRules()
    hours: Hours | None = None
    options: tuple[str, ...] = ()
    """Options of the machine's process, at a site ``securefl party``, such as ``--site-memory=500``."""


@dataclass(frozen=True)
class RunFacts:
    """Facts about one run at this site, for a check."""

    data: str
    """File of samples that the run takes at this machine; empty without."""
    scenario: Scenario
    """Resolved for the run's number of parties."""
    epsilon: float | None
    """Epsilon of all planned releases of the run; None without ``[privacy]``."""
    spent: float
    """Epsilon that the site's account has spent in other runs."""


_REFUSED_OPTIONS: Final = frozenset(
    {"--help", "--key", "--roster", "--name", "--run", "--out", "--account", "--broker", "--site", "--data",
     "--set", "--seed", "--insecure-seeded-entropy", "--lab", "--budget", "--spent"}
)  # fmt: skip
"""Options that the agent sets, or that would change the run."""


def read_policy(path: Path) -> SitePolicy:
    """Read a policy.

    Raises:
        ConfigError: it cannot be read, other users can change it, or a field is unknown, missing or invalid.
    """
    with files.reading(path, _REMEDY):
        shared = path.stat().st_mode & 0o022
    if shared:
        raise ConfigError(str(path), "can be changed by other users", f"chmod go-w {path}")
    policy = read_table(path, SitePolicy, _REMEDY)
    _check_names(policy, path)
    for number, option in enumerate(policy.options):
        name = option.partition("=")[0]
        if not option.startswith("--") or name in _REFUSED_OPTIONS:
            raise ConfigError(
                f"{path}: options.{number}",
                f"{option[:60]!r} is set by the agent, or is not an option",
                "leave it out",
            )
    if policy.privacy.left and policy.privacy.budget is None:
        raise ConfigError(
            f"{path}: privacy.left", "is a part of privacy.budget, which is missing", "give both"
        )
    if policy.privacy.budget is not None and policy.privacy.left >= policy.privacy.budget:
        raise ConfigError(f"{path}: privacy.left", "is not below privacy.budget", "give less")
    if policy.hours is not None and policy.hours.begin == policy.hours.end:
        raise ConfigError(f"{path}: hours.end", "is the same time as hours.begin", "leave [hours] out")
    return policy


def _check_names(policy: SitePolicy, path: Path) -> None:
    """Check digests and rules of a policy.

    Raises:
        ConfigError: a digest is not one, or a rule does not exist.
    """
    for name, digest in policy.code.items():
        if not _DIGEST.fullmatch(digest):
            raise ConfigError(
                f"{path}: code.{name[:60]}",
                f"{digest[:20]!r} is not a SHA-256 of 64 digits 0-9 and a-f",
                "copy its line from: securefl agent KIT --policy new.toml --write-policy",
            )
    built_in = rule_names() if policy.rules else ()
    for number, rule in enumerate(policy.rules):
        if rule not in built_in and not OWN_NAME.fullmatch(rule):
            near = text.closest(rule, built_in)
            raise ConfigError(
                f"{path}: rules.{number}",
                f"{rule[:40]!r} is not a rule",
                f"did you mean {near}?" if near else f"rules: {', '.join(built_in)}, or module:name",
            )


def code_violations(policy: SitePolicy | None, code: Mapping[str, str]) -> Iterator[str]:
    """Yield a reason for each code that the policy does not allow; without a policy none is.

    Args:
        policy: of the machine.
        code: digest of the installed code by ``module:name``.
    """
    allowed = policy.code if policy is not None else {}
    for name, digest in code.items():
        if name not in allowed:
            yield f"code: {name} is not allowed"
        elif allowed[name] != digest:
            yield f"code: {name} has the digest {digest[:16]}, and {allowed[name][:16]} is allowed"


def violations(policy: SitePolicy, facts: RunFacts) -> Iterator[str]:
    """Yield a reason for each other rule of the policy that a run breaks, naming its field."""
    yield from _of_work(policy, facts)
    yield from _of_privacy(policy.privacy, facts)
    scenario, clusters, deadlines = facts.scenario, policy.clusters, policy.deadlines
    if scenario.clustering.size < clusters.smallest:
        yield f"clusters.smallest: clusters of {scenario.clustering.size}, below {clusters.smallest}"
    if scenario.secure_sum.min_survivors < clusters.survivors:
        yield (
            f"clusters.survivors: a sum of {scenario.secure_sum.min_survivors} updates may open, below"
            f" {clusters.survivors}"
        )
    if scenario.secure_sum.colluders_per_cluster < clusters.colluders:
        yield (
            f"clusters.colluders: the run tolerates {scenario.secure_sum.colluders_per_cluster}, below"
            f" {clusters.colluders}"
        )
    if clusters.server == "active" and scenario.secure_sum.server != "active":
        yield "clusters.server: the run trusts the server to follow the protocol"
    if clusters.leakage == "veto" and scenario.leakage.mode != "veto":
        yield "clusters.leakage: the run only reports what its sums reveal together"
    if clusters.repeats == "refuse" and scenario.evaluation.repeats != "refuse":
        yield REPEATS
    for name, value, most in (
        ("training", scenario.deadlines.training, deadlines.training),
        ("join", scenario.deadlines.join, deadlines.join),
        ("rounds", scenario.stop.rounds, deadlines.rounds),
    ):
        if most is not None and value > most:
            yield f"deadlines.{name}: {value:g} is above {most:g}"


def _of_work(policy: SitePolicy, facts: RunFacts) -> Iterator[str]:
    if facts.data and facts.data not in policy.data:
        yield f"data: {facts.data} is not allowed"
    rule = facts.scenario.aggregation.rule.name
    if policy.rules and rule not in policy.rules:
        yield f"rules: {rule} is not allowed"


def _of_privacy(limits: PrivacyRules, facts: RunFacts) -> Iterator[str]:
    unit, delta = facts.scenario.privacy.unit, facts.scenario.privacy.delta
    if limits.limited and unit != "none" and (delta == "auto" or delta > limits.delta):
        yield f"privacy.delta: {delta} is above {limits.delta:g}"
    if limits.unit != "any" and unit not in {limits.unit, "party"}:
        hides = "nothing" if unit == "none" else f"a {unit}"
        yield f"privacy.unit: the run hides {hides}, not a {limits.unit}"
    if limits.run is not None and not (facts.epsilon is not None and facts.epsilon <= limits.run):
        found = "no bound" if facts.epsilon is None else f"epsilon {facts.epsilon:.3g}"
        yield f"privacy.run: the run has {found}, above {limits.run:g}"
    if limits.budget is not None:
        if facts.epsilon is None:
            yield "privacy.budget: the run has no bound on epsilon"
            return
        left = limits.budget - facts.spent - facts.epsilon
        if not left >= limits.left:
            shown = f"{max(left, 0):.3g}" if math.isfinite(left) else "nothing"
            yield (
                f"privacy.budget: epsilon {facts.spent:.3g} is spent and the run takes {facts.epsilon:.3g},"
                f" which leaves {shown} of {limits.budget:g}; {limits.left:g} must remain"
            )


def first_policy(code: Mapping[str, str], data: str, *, repeats: bool = False) -> str:
    """Return the text of a site's policy to edit, which asks a person about each run.

    Args:
        code: digest by name of the code that it allows.
        data: file of samples that it allows; empty for none.
        repeats: True if the kit's scenario accepts repeats, which is explained, and left to the site.
    """
    asked = (
        "# The kit's scenario accepts this: the agent refuses its runs unless you change the next line.\n"
        if repeats
        else ""
    )
    return f"""\
# Policy of this site (docs/agents.md). securefl agent checks each run against it: at acceptance, before each
# start and after each change of this file.
decision = "ask"                # a person approves each run (securefl runs approve KIT RUN); or "accept"
data = {_samples(data)}                       # files of samples for built-in training
rules = []                      # aggregation rules, such as ["median"]; empty for all
options = []                    # for securefl party, such as ["--site-python=/opt/site/bin/python"]

[privacy]
unit = "any"                    # or "record" or "party": least unit of differential privacy
# run = 4.0                     # largest epsilon of one run
# budget = 10.0                 # largest epsilon of all runs
# left = 1.0                    # least epsilon of the budget that remains
# delta = 1e-4                  # largest delta of such runs

[clusters]
smallest = 3                    # least clustering.size
survivors = 2                   # fewest updates in a sum
colluders = 0                   # least number of sites in a sum that may collude with the server
server = "curious"              # "active": refuse runs that trust the server
leakage = "veto"                # "report": allow runs whose sums may together reveal single updates
{asked}repeats = "refuse"              # "accept": allow metrics that may reveal counts of this site

[deadlines]
# training = 600                # largest deadlines.training, s
# join = 86400                  # largest deadlines.join, s
# rounds = 100                  # largest stop.rounds

# [hours]                       # local time; a running run pauses outside of it
# begin = "20:00"
# end = "06:00"
# days = ["mon", "tue", "wed", "thu", "fri"]

{_code_table(code)}"""


def code_policy(code: Mapping[str, str]) -> str:
    """Return the text of a policy for the server or the dealer.

    Args:
        code: digest by name of the code that it allows.
    """
    return f"""\
# Policy of this machine (docs/agents.md): code that runs may import here. Rules of sites do not apply.
decision = "accept"             # or "ask": a person approves each run
options = []                    # for its process, such as ["--metrics-port=0"]

{_code_table(code)}"""


def _samples(data: str) -> str:
    return f"[{write_value(data)}]" if data else "[]"


def _code_table(code: Mapping[str, str]) -> str:
    lines = [f"{write_value(name)} = {write_value(digest)}" for name, digest in code.items()]
    return "\n".join(["[code]", *lines, ""]) if lines else ""
