"""Evaluation of a submission at one machine, and the arguments that start its process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from securefl.base import crypto
from securefl.base.errors import ConfigError
from securefl.base.ids import DEALER, PartyId
from securefl.methods import feasibility, privacy
from securefl.runtime import account, provision
from securefl.runtime.agents import policy, register
from securefl.runtime.agents.code_digest import digest_of_code
from securefl.runtime.agents.submission import Submission
from securefl.scenario import Scenario, load_scenario, scenario_digest


@dataclass(frozen=True)
class SubmissionVerdict:
    """Result of an evaluation; a run is accepted if both texts are empty."""

    missing: str = ""
    """Input that is missing or in use."""
    against: str = ""
    """First reason to refuse the run."""


def run_overrides(submission: Submission) -> tuple[str, ...]:
    """Return the overrides of the scenario that are the same at all machines of a run."""
    found = [f"parties={len(submission.parties)}"]
    if submission.weights_name:
        found.append(f"model.file={register.AGENT}/{submission.run}/{submission.weights_name}")
    return tuple(found)


def load_run_scenario(file: Path, submission: Submission) -> Scenario:
    """Load the scenario of a submission as its processes do.

    Raises:
        ConfigError: it is invalid.
    """
    scenario = load_scenario(file, run_overrides(submission))
    feasibility.check(scenario)
    if scenario.privacy.unit != "none" and scenario.privacy.multiplier is None:
        raise ConfigError(
            "privacy.multiplier", "is not settled", "securefl dp settle SCENARIO --out settled.toml"
        )
    return scenario


def needed_machines(
    submission: Submission, history: provision.History, scenario: Scenario
) -> tuple[PartyId, ...]:
    """Return the machines besides the server that must accept a run: its parties, and its dealer if any."""
    dealer = scenario.secure_sum.validated is not None and DEALER in history.present
    return (*map(PartyId, submission.parties), *((DEALER,) if dealer else ()))


def roster_of(submission: Submission, history: provision.History) -> crypto.Roster:
    """Return the roster of a run's parties.

    Raises:
        ConfigError: the history lacks one of them.
    """
    whole = history.roster()
    lacking = [name for name in submission.parties if PartyId(name) not in whole.parties]
    if lacking:
        raise ConfigError("parties", f"{lacking[0]} is not in the roster", "submit the run without it")
    return crypto.Roster(
        whole.server,
        {PartyId(name): whole.parties[PartyId(name)] for name in submission.parties},
        whole.dealer,
    )


class SubmissionEvaluator:
    """Evaluation of submissions with the kit and the policy of one machine."""

    def __init__(self, kit: provision.MachineKit, history: provision.History) -> None:
        self._kit = kit
        self._history = history
        self._heads = {provision.sha256(line) for line in history.lines[:-1]}

    def evaluate(self, known: register.KnownRun, given: policy.SitePolicy | None) -> SubmissionVerdict:
        """Return the verdict about a run; with a policy it also keeps to that.

        Never raises for a bad submission: that is a reason to refuse.
        """
        submission = known.order.content
        if submission.history in self._heads:
            return SubmissionVerdict(against="was submitted for an earlier roster; submit it again")
        if submission.history != self._history.head:
            return SubmissionVerdict(
                missing="waits for a newer answer (securefl provision accept), or for an earlier run to end"
            )
        try:
            known.write_inputs(roster_of(submission, self._history))
            return SubmissionVerdict(against=self._reason_against(known, given)[:200])
        except account.AccountInUseError:
            return SubmissionVerdict(missing="waits for the account, which another run uses")
        except ConfigError as error:
            return SubmissionVerdict(against=str(error)[:200])

    def _reason_against(self, known: register.KnownRun, given: policy.SitePolicy | None) -> str:
        submission = known.order.content
        scenario = load_run_scenario(known.folder / register.SCENARIO, submission)
        if scenario_digest(scenario).hex() != submission.scenario_digest:
            return "the scenario resolves to another digest: versions of securefl differ"
        if given is None:
            return ""
        return next(policy.violations(given, self._facts(submission, scenario, given)), "")

    def _facts(self, submission: Submission, scenario: Scenario, given: policy.SitePolicy) -> policy.RunFacts:
        code = ""
        if submission.site in given.code:
            code = digest_of_code(submission.site, self._kit.folder)
        epsilon, spent, unit = None, 0.0, scenario.privacy.unit
        limits = given.privacy
        if unit != "none" and (limits.run is not None or limits.budget is not None):
            epsilon = epsilon_of_run(scenario)
            if limits.budget is not None:
                spent = self._kit.spent_in_others(unit, submission.run)
        return policy.RunFacts(submission, scenario, code, epsilon, spent)

    def words(self, known: register.KnownRun, given: policy.SitePolicy | None) -> list[str]:
        """Return the arguments of ``securefl`` that start this machine's process of a run.

        Raises:
            ConfigError: the account of a former key cannot be read.
        """
        submission, content, role = known.order.content, self._kit.content, self._kit.role
        place = f"{register.AGENT}/{known.run}"
        files = msgspec.structs.replace(
            content.files, scenario=f"{place}/{register.SCENARIO}", roster=f"{place}/{register.ROSTER}"
        )
        data = {"party": submission.data, "server": submission.server_data}.get(role, "")
        run = provision.KitRun(
            broker=content.run.broker,
            site=submission.site if role == "party" else "",
            data=data,
            parties=len(submission.parties),
        )
        limit = None
        if role == "party" and given is not None and given.privacy.budget is not None:
            limit = given.privacy.budget - given.privacy.left
        words = self._kit.of_run(files, run).words(known.run, own_budget=limit is not None)
        for override in run_overrides(submission)[1:]:
            words += ["--set", override]
        if limit is not None:
            words.append(f"--budget={limit!r}")
        return [role, *words, f"--run={known.run}", *(given.options if given is not None else ())]


def epsilon_of_run(scenario: Scenario) -> float:
    """Return the epsilon of all planned releases of a settled scenario, and of its choices of task groups.

    Raises:
        ConfigError: dp_accounting is missing, or the model has no known length.
    """
    from securefl.runtime.process import declared_length  # noqa: PLC0415 - imports torch

    mechanism = privacy.mechanism_of(scenario, declared_length(scenario, 0))
    assert mechanism is not None  # noqa: S101 - the caller has checked the unit
    planned = privacy.planned_releases(scenario)
    count = planned if mechanism.allowed is None else min(planned, mechanism.allowed)
    chosen = scenario.groups.choice_epsilon or 0.0
    answers = scenario.groups.count - 1 + scenario.groups.choices
    return privacy.ledger_of(mechanism, count).epsilon() + chosen * answers
