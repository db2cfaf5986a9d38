"""Draws of clusters by a server that plays for one victim, whose machine is the real one.

The server announces whom it likes, calls for another draw when it dislikes one, and never names anybody for
it. The victim's machine checks every hello and reveal and says which clusters follow; the other parties speak
with their own keys, as their machines would. What a draw is worth to the server is told from the clusters by
the rules of survivors and certificates themselves (:func:`victims`), not by the closed forms under test.

``python -m tests.simulation.odds_game`` prints the table of ``docs/results/odds.md``.
"""

from __future__ import annotations

import itertools
import math
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

import msgspec
import numpy as np
from scipy.special import rel_entr

from securefl.base.entropy import Entropy, InsecureSeededEntropy
from securefl.base.ids import SERVER, PartyId, RunId
from securefl.base.text import percent
from securefl.methods.attacks.assignment import party_names
from securefl.methods.clustering import commitment, survivor_set, tells_groups
from securefl.methods.clustering.adaptive_server import game_of, p_alone
from securefl.methods.clustering.assignment import Assignment
from securefl.methods.clustering.atoms import form_atoms
from securefl.methods.feasibility.limits import check
from securefl.protocol.kernel.effects import Report, Send
from securefl.protocol.kernel.events import Chosen, Place, Received
from securefl.protocol.messages import AnyMessage
from securefl.protocol.messages.rounds import Announce, Hello, Invite, ModelAnnounce, Reveal, Reveals
from securefl.protocol.round.party.machine import PartyMachine
from securefl.protocol.round.party.phases import PartyContext, PartyPhase
from securefl.protocol.round.shared.draw import Draw, draw_round
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.reports import ClustersDrawn, RunEffect
from securefl.protocol.round.shared.statement import model_digest
from securefl.protocol.wire.outbox import Outbox
from securefl.scenario.load import parse_scenario
from securefl.scenario.scenario import Scenario
from tests.simulation.rosters import seeded_identities

ERROR = 1e-3
"""Probability that any of the intervals of a table misses its chance."""

Aim = Literal["alone", "noise", "atom", "group"]


@dataclass(frozen=True)
class Setting:
    """One row: a scenario, and what the server plays for."""

    name: str
    lines: tuple[str, ...]
    aim: Aim = "alone"
    bound: bool = False
    """Whether what is printed is a bound here, not a value."""
    draws: int = 50
    """In the suite; a table takes ``paper``."""
    paper: int = 2_000

    @property
    def scenario(self) -> Scenario:
        text = 'name = "odds"\nparties = 12\n[weighting]\nmode = "ignore"\n[encoding]\nscale_bits = 16\n'
        # Verification changes no draw, and the machine of the game is told of no round's end.
        return parse_scenario(text, (*self.lines, 'secure_sum.verify="off"'))


def setting(
    name: str, n: int, q: int, m: int, t: int, f: int, least: int, rounds: int, *more: str, **other: object
) -> Setting:
    """N, q, m, t, f, ``min_survivors`` and T; against an active server unless ``more`` says otherwise."""
    sums = f"server='active',threshold={t},min_survivors={least},colluders={q},colluders_per_cluster={f}"
    lines = (f"parties={n}", f"clustering.size={m}", f"secure_sum={{{sums}}}", f"stop.rounds={rounds}")
    return Setting(name, (*lines, *more), **other)  # type: ignore[arg-type]


CURIOUS = "secure_sum.server='curious'"
SHARED = (
    "privacy={unit='party',multiplier=1,delta=1e-5,placement='threshold'}",
    "encoding={clip=1,range=1,scale_bits=10}",
)
NEW_WORK = "clustering.new_work=true"
REPORT = "leakage.mode='report'"

SETTINGS = (
    setting("design page, 1", 60, 6, 5, 4, 1, 4, 20, draws=30),
    setting("design page, 2", 60, 12, 5, 4, 1, 4, 20, draws=30),
    setting("design page, 3", 60, 6, 10, 7, 2, 7, 20, draws=30, paper=6_000),
    setting("design page, 4", 100, 10, 10, 7, 3, 7, 50, draws=20, paper=6_000),
    setting("few parties", 12, 3, 4, 3, 1, 3, 6),
    setting("nobody to spare", 10, 3, 5, 4, 1, 4, 5),
    setting("a prime number", 31, 5, 5, 4, 1, 4, 10, draws=40),
    setting("pairs", 20, 4, 4, 3, 1, 3, 5),
    setting("most collude", 16, 10, 4, 3, 1, 3, 3),
    setting("shares enough", 60, 6, 5, 3, 0, 5, 20, draws=30),
    setting("shares enough, R = 2", 25, 6, 5, 3, 0, 5, 4, "clustering.reclusterings=2", NEW_WORK),
    setting("R = 2", 24, 5, 5, 4, 1, 4, 4, "clustering.reclusterings=2", NEW_WORK, bound=True),
    setting("R = 3", 30, 9, 5, 4, 1, 4, 2, "clustering.reclusterings=3", NEW_WORK, bound=True, draws=40),
    setting("participants drawn", 30, 5, 5, 4, 1, 4, 6, "participation.count=20", draws=40),
    setting("fixed clusters", 20, 4, 5, 4, 1, 4, 5, "clustering.fixed=true", REPORT, draws=40),
    setting("curious", 60, 12, 3, 2, 0, 2, 20, CURIOUS, draws=30),
    setting("curious, shares enough", 30, 9, 5, 3, 1, 5, 20, CURIOUS, draws=40),
    setting("curious, participants drawn", 30, 9, 3, 2, 0, 2, 6, CURIOUS, "participation.count=12", draws=40),
    setting(
        "curious, fixed clusters", 20, 6, 4, 3, 0, 3, 5, CURIOUS, "clustering.fixed=true", REPORT, draws=40
    ),
    setting("shared noise", 24, 5, 6, 5, 1, 6, 5, *SHARED, aim="noise"),
    setting("shared noise, curious", 20, 4, 5, 3, 1, 4, 5, CURIOUS, *SHARED, aim="noise"),
    setting("atoms", 20, 5, 8, 8, 2, 8, 1, "clustering.atoms=4", aim="atom", draws=40),
    setting("atoms, curious", 20, 5, 8, 7, 2, 8, 1, "clustering.atoms=4", CURIOUS, aim="atom", draws=40),
    setting(
        "open groups", 12, 3, 4, 3, 1, 4, 3, CURIOUS, "groups={count=3,mode='open'}", REPORT, aim="group"
    ),
)


@dataclass(frozen=True)
class Measured:
    """Chances by closed form and by machines."""

    setting: Setting
    printed: float
    """Per draw of a clustering and party."""
    in_run: float
    present: int
    draws: int
    found: float
    low: float
    high: float
    seconds: float

    @property
    def agrees(self) -> bool:
        """Whether the interval holds what is printed; of a bound, whether it does not lie above."""
        return self.low <= self.printed and (self.setting.bound or self.printed <= self.high)


MessageT = TypeVar("MessageT", bound=AnyMessage)


class Table:
    """A run as the server plays it, with the machine of its victim.

    Args:
        config: the scenario.
        run: its id.
        present: who is announced; the last one is the victim, the first q collude.
        groups: task groups that they name, where these are told.
        seed: of all nonces.
    """

    def __init__(
        self, config: Scenario, run: RunId, present: int, groups: Mapping[PartyId, int], seed: int
    ) -> None:
        names = party_names(config.parties)
        identities, roster = seeded_identities(names, 1)
        root: Entropy = InsecureSeededEntropy(seed)
        self.plan = RunPlan(run, config, check(config), roster, 1)
        self.present = names[:present]
        self.victim = self.present[-1]
        self._groups = groups
        self._root = root
        self._outboxes = {name: Outbox(run, identities[name], root.child(name)) for name in self.present}
        context = PartyContext(
            self.plan, self.victim, 10, root.child("own"), prepared=self.plan.sums.prepare()
        )
        self._machine = PartyMachine(context)
        self._phase: PartyPhase
        self._phase, _ = self._machine.start(0.0)
        self._params = np.zeros(self.plan.total_parameters, "<f4").tobytes()
        self._reveals: tuple[bytes, ...] = ()

    def _tell(self, place: Place, message: AnyMessage) -> tuple[RunEffect, ...]:
        self._phase, effects = self._machine.step(self._phase, Received(0.0, SERVER, place, message))
        return effects

    def begin(self, round_: int) -> None:
        """The model of a round."""
        self._tell(Place(round_), ModelAnnounce(params=self._params))

    def draw(self, round_: int, number: int) -> Draw:
        """One draw among those who are announced, up to the point where the server knows the clusters."""
        at, model = Place(round_, attempt=number), model_digest(np.frombuffer(self._params, "<f4"))
        invite = Invite(model_digest=model, config_digest=self.plan.config_digest())
        effects = self._tell(at, invite)
        if tells_groups(self.plan.scenario.groups) and number == 0:
            group = self._groups[self.victim]
            self._phase, effects = self._machine.step(self._phase, Chosen(0.0, round_, group, ""))
        own = _sent(effects, Hello)
        nonces = {
            name: self._root.child("nonce", name, round_, number).draw(32) for name in self.present[:-1]
        }
        hellos = {self.victim: own} | {
            name: msgspec.structs.replace(
                own,
                commitment=commitment(nonce, self.plan.run, round_, number, name),
                group=self._groups.get(name, own.group),
            )
            for name, nonce in nonces.items()
        }
        frames = tuple(self._framed(name, at, hellos[name]) for name in self.present)
        own_reveal = _sent(self._tell(at, Announce(hellos=frames)), Reveal)
        reveals = {name: Reveal(nonce=nonce) for name, nonce in nonces.items()} | {self.victim: own_reveal}
        self._reveals = tuple(self._framed(name, at, reveals[name]) for name in self.present)
        return draw_round(
            self.plan,
            round_,
            number,
            model,
            {name: reveal.nonce for name, reveal in reveals.items()},
            dict.fromkeys(self.present, 10),
            groups={name: hello.group for name, hello in hellos.items()},
        )

    def keep(self, round_: int, number: int) -> ClustersDrawn:
        """The last draw as the victim takes it: it draws its keys and starts to train."""
        effects = self._tell(Place(round_, attempt=number), Reveals(reveals=self._reveals))
        (drawn,) = (
            one.item for one in effects if isinstance(one, Report) and isinstance(one.item, ClustersDrawn)
        )
        return drawn

    def _framed(self, name: PartyId, at: Place, message: AnyMessage) -> bytes:
        (frame,) = self._outboxes[name].frames(SERVER, at, message)
        return frame


def _sent(effects: tuple[RunEffect, ...], kind: type[MessageT]) -> MessageT:
    (message,) = (one.message for one in effects if isinstance(one, Send) and isinstance(one.message, kind))
    return message


def victims(plan: RunPlan, assignment: Assignment, accomplices: frozenset[PartyId], aim: Aim) -> int:
    """How many honest members of clusters the server could have, each by itself, in this draw."""
    sums = plan.scenario.secure_sum
    clusters = {(r, j): m for r, row in enumerate(assignment.clusters) for j, m in enumerate(row)}
    found = 0
    for members in clusters.values():
        honest = set(members) - accomplices
        inside = len(members) - len(honest)
        if aim == "noise":
            found += len(honest) * (inside > sums.colluders_per_cluster)
        elif sums.kind == "masking" and inside >= sums.threshold:
            found += len(honest)
        elif sums.server == "curious":
            found += len(honest) == 1
        else:
            found += sum(_left(plan, clusters, honest - {one}, one) for one in honest)
    return found


def wins(
    plan: RunPlan, assignment: Assignment, accomplices: frozenset[PartyId], victim: PartyId
) -> set[PartyId] | None:
    """Whose inputs are to be lost so that the victim is alone with accomplices; None if it cannot be."""
    clusters = {(r, j): m for r, row in enumerate(assignment.clusters) for j, m in enumerate(row)}
    for members in clusters.values():
        lost = set(members) - accomplices - {victim}
        if victim in members and _left(plan, clusters, lost, victim):
            return lost
    return None


def _left(
    plan: RunPlan,
    clusters: Mapping[tuple[int, int], tuple[PartyId, ...]],
    lost: set[PartyId],
    victim: PartyId,
) -> bool:
    """Whether the victim is in a certified set of survivors without those whose inputs are lost."""
    least = plan.scenario.secure_sum.min_survivors
    submitted = {key: set(members) - lost for key, members in clusters.items()}
    survivors = survivor_set(clusters, submitted, least)
    return victim in survivors and len(survivors) >= (plan.limits.quorum or 0)


def told(setting: Setting) -> tuple[float, float, int]:
    """What the header says: in one draw, in the run; and how many parties the server announces for it."""
    config = setting.scenario
    game, sums = game_of(config), config.secure_sum
    if setting.aim == "noise":
        best = game.exceeds(sums.colluders_per_cluster)
        return best.chance, best.in_run, best.present
    chance, in_run = p_alone(config)
    if setting.aim != "alone":
        return in_run, in_run, config.parties
    best = game.alone(sums.min_survivors, sums.threshold if sums.kind == "masking" else None)
    assert (best.chance, best.in_run) == (chance, in_run)
    return best.chance, best.in_run, best.present


def _most(setting: Setting) -> int:
    """The most parties that one draw can give to the server."""
    config = setting.scenario
    game, sums = game_of(config), config.secure_sum
    honest = told(setting)[2] - game.colluders
    if setting.aim == "group":
        return 1
    if setting.aim == "atom":
        return (3 if game.server == "active" else 1) * (game.colluders // (config.clustering.atoms - 1))
    need = sums.colluders_per_cluster + 1
    if setting.aim == "alone":
        need = min(sums.threshold, (game.size if game.server == "curious" else sums.min_survivors) - 1)
    again = config.clustering.reclusterings
    return again * min(honest, game.colluders // need * (game.largest - need))


def played(setting: Setting, draws: int, seed: int = 1) -> Iterator[int]:
    """Yield for each draw how many parties the server could have; with atoms for all draws of a run.

    Each draw counts, those that the server then voids too: it voids two of three, and the victim's machine
    has to go along with that. Fixed clusters are one draw, and the run's id makes another.
    """
    config = setting.scenario
    game, accomplices = game_of(config), frozenset(party_names(config.parties)[: game_of(config).colluders])
    present = told(setting)[2]
    again = 3 if game.server == "active" and not game.fixed else 1
    rounds = 1 if game.fixed or setting.aim == "atom" else config.stop.rounds
    # Only the victim is in the second group; colluders say that they are.
    groups = dict.fromkeys(party_names(config.parties), 0) if setting.aim == "group" else {}
    for run in itertools.count():
        table = Table(config, RunId(f"odds{run}"), present, groups, 1_000_003 * seed + run)
        groups.update(dict.fromkeys((*accomplices, table.victim), 1) if groups else {})
        for round_ in range(rounds):
            table.begin(round_)
            bare: set[PartyId] = set()
            for number in range(again):
                drawn = table.draw(round_, number)
                if setting.aim == "atom":
                    bare |= _bare(table.plan, drawn, accomplices)
                elif setting.aim == "group":
                    yield _filled(drawn.assignment, table.victim, accomplices)
                else:
                    yield victims(table.plan, drawn.assignment, accomplices, setting.aim)
                draws -= setting.aim != "atom"
            assert table.keep(round_, again - 1).clusters == drawn.assignment.clusters
            if setting.aim == "atom":
                yield len(bare)
                draws -= 1
            if draws <= 0:
                return


def _bare(plan: RunPlan, drawn: Draw, accomplices: frozenset[PartyId]) -> set[PartyId]:
    """Who has nothing but colluders in its atom."""
    atoms = form_atoms(drawn.atom_seed, plan.roster.parties, plan.scenario.clustering.atoms)
    left = [set(atom) - accomplices for atom in atoms]
    return {party for honest in left for party in honest if len(honest) == 1}


def _filled(assignment: Assignment, victim: PartyId, accomplices: frozenset[PartyId]) -> int:
    return sum(
        set(members) <= accomplices | {victim} for members in assignment.clusters[0] if victim in members
    )


def measured(setting: Setting, draws: int) -> Measured:
    """The chance as drawn; its interval misses it with probability ``ERROR / len(SETTINGS)`` at most.

    Hoeffding (1963), theorem 1, in its first form: for a mean x of n independent values in [0, 1] with
    expectation mu, P(x on one side) <= exp(-n KL(x || mu)).
    """
    begun = time.process_time()
    config = setting.scenario
    printed, in_run, present = told(setting)
    most, counts = _most(setting), list(played(setting, draws))
    assert max(counts) <= most
    share, limit = sum(counts) / (most * len(counts)), math.log(2 * len(SETTINGS) / ERROR) / len(counts)
    honest = 1 if setting.aim == "group" else present - config.secure_sum.colluders
    scale = most / (honest * config.clustering.reclusterings)
    low, high = _ends(share, limit)
    return Measured(
        setting,
        printed,
        in_run,
        present,
        len(counts),
        share * scale,
        low * scale,
        high * scale,
        time.process_time() - begun,
    )


def _ends(share: float, limit: float) -> tuple[float, float]:
    """The least and the largest mu with KL(share || mu) <= limit, by bisection."""

    def far(mu: float) -> bool:
        return float(sum(rel_entr([share, 1 - share], [mu, 1 - mu]))) > limit

    low, high, top, bottom = 0.0, share, 1.0, share
    for _ in range(60):
        middle, upper = (low + high) / 2, (bottom + top) / 2
        low, high = (middle, high) if far(middle) else (low, middle)
        bottom, top = (bottom, upper) if far(upper) else (upper, top)
    return low, top


def rows(scale: float) -> Iterator[str]:
    """Yield the table of ``docs/results/odds.md``, with this share of its draws."""
    yield (
        "| setting | N, q, m, t, f, least, T | announced | in the run, printed | a draw, printed | measured"
        " | interval | draws |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for one in SETTINGS:
        config = one.scenario
        sums = config.secure_sum
        numbers = (
            config.parties,
            sums.colluders,
            config.clustering.size,
            sums.threshold,
            sums.colluders_per_cluster,
            sums.min_survivors,
            config.stop.rounds,
        )
        found = measured(one, max(1, round(scale * one.paper)))
        chances = (found.in_run, found.printed, found.found)
        in_run, printed, drawn = (percent(chance) for chance in chances)
        within = f"{percent(found.low)} to {percent(found.high)}" + ("" if found.agrees else " MISSED")
        yield (
            f"| {one.name} | {', '.join(map(str, numbers))} | {found.present} | {in_run} |"
            f" {'at most ' if one.bound else ''}{printed} | {drawn} | {within} | {found.draws:,} |"
        )


if __name__ == "__main__":
    for line in rows(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0):
        print(line, flush=True)
