"""Evaluation of a submission at one machine, and the arguments that start its process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from securefl.base import crypto, foreign
from securefl.base.errors import ConfigError
from securefl.base.ids import DEALER, PartyId
from securefl.methods import clustering, feasibility, privacy
from securefl.runtime import account, provision
from securefl.runtime.agents import policy, register
from securefl.runtime.agents.code_digest import digests_of
from securefl.runtime.agents.submission import Submission
from securefl.scenario import Scenario, load_scenario, own_names, parse_table, scenario_digest


@dataclass(frozen=True)
class SubmissionVerdict:
    """Result of an evaluation; a run is accepted if both texts are empty."""

    missing: str = ""
    """Input that is missing or in use."""
    against: str = ""
    """First reason to refuse the run."""
    needed: tuple[PartyId, ...] = ()
    """Machines besides the server that must accept the run."""
    fewest: int = 0
    """Parties that a round needs at least; 0 if the run is not judged."""


def run_overrides(submission: Submission) -> tuple[str, ...]:
    """Return the overrides of the scenario that are the same at all machines of a run."""
    found = [f"parties={len(submission.parties)}"]
    if submission.weights_bytes:
        found.append(f"model.file={register.AGENT}/{submission.run}/{register.WEIGHTS}")
    return tuple(found)


def load_run_scenario(file: Path, submission: Submission) -> Scenario:
    """Load the scenario of a submission as its processes do.

    Raises:
        ConfigError: it is invalid.
    """
    provision.check_no_behaviours(submission.scenario, "scenario")
    scenario = load_scenario(file, run_overrides(submission))
    if scenario.secure_sum.kind == "plain":
        raise ConfigError("secure_sum.kind", "plain sums are for simulations", 'write "masking"')
    if scenario.model.first_file and not submission.weights_bytes:
        raise ConfigError("model.file", "names first weights that were not submitted", "submit the run again")
    feasibility.check(scenario)
    if not scenario.privacy.settled:
        raise ConfigError("privacy", "is not settled", "securefl dp settle SCENARIO --out settled.toml")
    return scenario


def needed_machines(
    submission: Submission, history: provision.History, scenario: Scenario
) -> tuple[PartyId, ...]:
    """Return the machines besides the server that must accept a run: its parties, and its dealer if any."""
    dealer = scenario.secure_sum.validated is not None and DEALER in history.present
    return (*map(PartyId, submission.parties), *((DEALER,) if dealer else ()))


def fewest_parties(scenario: Scenario) -> int:
    """Return how many parties a round needs at least, by the majority and the clusters."""
    clusters = 0 if scenario.clustering.fixed else clustering.fewest_present(scenario)
    return max(scenario.parties // 2 + 1, clusters)


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
        """Return the verdict about a run; with a policy it also keeps to that: at a site all of it.

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
            return self._judge(known, given)
        except account.AccountInUseError:
            return SubmissionVerdict(missing="waits for the account, which another run uses")
        except ConfigError as error:
            return SubmissionVerdict(against=str(error)[:200])
        except OSError:
            # The disk: the agent ends.
            raise
        except Exception as error:  # any exception of allowed code, or of unforeseen values
            return SubmissionVerdict(against=f"cannot be judged: {foreign.describe(error)}"[:200])

    def _judge(self, known: register.KnownRun, given: policy.SitePolicy | None) -> SubmissionVerdict:
        submission = known.order.content
        # Before the scenario is loaded, which imports its code.
        code = self._code_of(submission, given)
        against = next(policy.code_violations(given, code), "")
        if against:
            return SubmissionVerdict(against=against[:200])
        scenario = load_run_scenario(known.folder / register.SCENARIO, submission)
        if scenario_digest(scenario).hex() != submission.scenario_digest:
            return SubmissionVerdict(
                against="the scenario resolves to another digest: versions of securefl differ"
            )
        if given is not None and self._kit.role == "party":
            against = next(policy.violations(given, self._facts(submission, scenario, given)), "")
        return SubmissionVerdict(
            against=against[:200],
            needed=needed_machines(submission, self._history, scenario),
            fewest=fewest_parties(scenario),
        )

    def _code_of(self, submission: Submission, given: policy.SitePolicy | None) -> dict[str, str]:
        """Return the digest of all code that this machine would import, empty where the policy has none."""
        names = [submission.site] if submission.site and self._kit.role == "party" else []
        names += own_names(parse_table(submission.scenario))
        return digests_of(names, given.code if given is not None else {}, self._kit.folder)

    def _data_of(self, submission: Submission) -> str:
        return {"party": submission.data, "server": submission.server_data}.get(self._kit.role, "")

    def _facts(self, submission: Submission, scenario: Scenario, given: policy.SitePolicy) -> policy.RunFacts:
        epsilon, spent, unit = None, 0.0, scenario.privacy.unit
        limits = given.privacy
        if unit != "none" and (limits.run is not None or limits.budget is not None):
            epsilon = epsilon_of_run(scenario)
            if limits.budget is not None:
                spent = self._kit.spent_in_others(unit, submission.run)
        return policy.RunFacts(self._data_of(submission), scenario, epsilon, spent)

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
        run = provision.KitRun(
            broker=content.run.broker,
            site=submission.site if role == "party" else "",
            data=self._data_of(submission),
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
    """Return the epsilon of all planned releases of a settled scenario.

    Raises:
        ConfigError: dp_accounting is missing, or the model has no known length.
    """
    from securefl.runtime.process import declared_length  # noqa: PLC0415 - imports torch

    mechanism = privacy.mechanism_of(scenario, declared_length(scenario, 0))
    assert mechanism is not None  # noqa: S101 - the caller has checked the unit
    planned = privacy.planned_releases(scenario)
    count = planned if mechanism.allowed is None else min(planned, mechanism.allowed)
    return privacy.ledger_of(mechanism, count).epsilon()
