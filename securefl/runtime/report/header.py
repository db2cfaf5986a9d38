"""Header of a run."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from securefl.base import header, text
from securefl.base.ids import RunId
from securefl.methods import facts, feasibility
from securefl.methods.privacy import Mechanism
from securefl.protocol import round as rounds
from securefl.runtime.report import privacy
from securefl.scenario import Scenario


def scenario_sentences(scenario: Scenario, limits: feasibility.DerivedLimits) -> Iterator[header.Sentence]:
    """Yield the sentences that follow from a scenario."""
    yield from facts.scenario_sentences(scenario, limits)
    yield from rounds.header_sentences(scenario)


def run_header(scenario: Scenario) -> header.RunHeader:
    """Return the header of a scenario, without data and model.

    Raises:
        ConfigError: the scenario is infeasible.
    """
    return header.RunHeader(tuple(scenario_sentences(scenario, feasibility.check(scenario))))


def on_start(
    seed: int,
    *,
    seeded: bool,
    lab: bool = False,
    simulated: bool = False,
    keys: tuple[str, str] = ("", "each process has its own key"),
    files: Path | None = None,
) -> Iterator[header.Sentence]:
    """Yield the sentences on a run's start.

    ``seeded``: all secrets, or all randomness of a simulation, derive from ``seed``. ``keys`` describes the
    source of keys, short and in full.
    """
    if lab:
        yield header.server("LAB: UPDATES ARE RECORDED", "anybody who reads the files sees each update")
    if simulated:
        drawn = (
            "clusters, data split, training, noise"
            if seeded
            else "clusters and data split, not batches or noise"
        )
        yield header.seed(f"{seed} determines {drawn}")
    elif seeded:
        also = "and the first model, the data split and faults; for tests and replay only"
        yield header.seed(f"INSECURE: all secrets derive from --seed {seed}", also)
    else:
        yield header.seed(f"{seed} determines first model, data split, faults")
        yield header.seed(*keys)
    if files is not None:
        yield header.end(f"files in {files}")


def header_of(
    run: RunId,
    scenario: Scenario,
    start: Iterable[header.Sentence],
    mechanism: Mechanism | None = None,
    *,
    seeded: bool,
    done: int = 0,
) -> header.RunHeader:
    """Return the header of a run.

    If privacy noise is ``seeded`` no guarantee holds. ``done`` rounds ended before a resume.

    Raises:
        ConfigError: the scenario is infeasible, no tried draw allows all reclusterings, or dp_accounting is
            missing for an epsilon.
    """
    limits = feasibility.check(scenario)
    void = privacy.why_none(scenario.behaviours, seeded=seeded)
    guaranteed = privacy.on_mechanism(scenario, limits, mechanism, void=void)
    before = [header.end(f"{text.count(done, 'round')} already done")] if done else []
    first = tuple(start)
    files = (one for one in first if one.line == "end")
    how = (one for one in first if one.line != "end")
    of_scenario = (*scenario_sentences(scenario, limits), *rounds.trial_sentences(scenario))
    sentences = (*how, *of_scenario, *before, *guaranteed, *files)
    return header.RunHeader(sentences, run, scenario.stop.rounds, done)
