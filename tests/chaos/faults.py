"""Faults of a chaos run: what breaks, of whom, and at which sight; and a seeded draw of a list of them.

A fault strikes when something is seen on the way to the broker: a frame of a kind, of somebody, of a round.
All frames pass relays of the harness, so that "as p03 sends its masked input, before the broker has it" is a
place that a list names and a replay finds again. A delay, drawn with the seed, moves it behind that place.

Lists are drawn so that a run can survive them: never more parties gone for good than a round can spare, and
no outage longer than processes look for a broker. What they do to each other in time is left to chance.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final, Literal

from msgspec import Struct

BROKER: Final = "broker"
SERVER: Final = "server"
DEALER: Final = "dealer"

_OUTSIDE: Final = frozenset({"JoinRun", "Software", "RollCall", "Goodbye"})
"""Kinds of frames of no round."""

Way = Literal["up", "down", "both"]


class When(Struct, frozen=True, forbid_unknown_fields=True):
    """The first frame of this kind that ``by`` sends in this round or a later one."""

    by: str
    kind: str
    round: int
    delay: float = 0.0
    """Seconds after it."""
    before: bool = False
    """The frame waits at the relay until the fault has struck: who dies of it has sent nothing."""

    def __str__(self) -> str:
        order = "before" if self.before else "after"
        later = f" + {self.delay:.2f} s" if self.delay else ""
        return f"{order} {self.by}'s {self.kind} of round {self.round}{later}"


class _Fault(Struct, frozen=True, tag=True, forbid_unknown_fields=True, kw_only=True):
    when: When


class Kill(_Fault, frozen=True, kw_only=True):
    """SIGKILL, and the same command again after ``back`` seconds; None: it does not come back."""

    who: str
    back: float | None = None
    twice: bool = False
    """It is started twice at the same time: one of the two has to be refused."""

    def __str__(self) -> str:
        again = "for good" if self.back is None else f"back after {self.back:.1f} s"
        return f"kill {self.who}, {again}{', twice' if self.twice else ''}, {self.when}"


class Terminate(_Fault, frozen=True, kw_only=True):
    """SIGTERM, and the same command again ``back`` seconds after its end."""

    who: str
    back: float

    def __str__(self) -> str:
        return f"terminate {self.who}, back after {self.back:.1f} s, {self.when}"


class Stall(_Fault, frozen=True, kw_only=True):
    """SIGSTOP, and SIGCONT."""

    who: str
    seconds: float

    def __str__(self) -> str:
        return f"stall {self.who} for {self.seconds:.1f} s, {self.when}"


class Reset(_Fault, frozen=True, kw_only=True):
    """Their connections are reset; they may connect again at once."""

    who: tuple[str, ...]

    def __str__(self) -> str:
        return f"reset {' '.join(self.who)}, {self.when}"


class HalfOpen(_Fault, frozen=True, kw_only=True):
    """The present connection swallows what is sent one way or both, without a word; new ones work."""

    who: str
    way: Way

    def __str__(self) -> str:
        return f"half-open link of {self.who} ({self.way}), {self.when}"


class Slow(_Fault, frozen=True, kw_only=True):
    """A link of so many bytes a second, each piece so many seconds late."""

    who: str
    seconds: float
    rate: float
    late: float

    def __str__(self) -> str:
        return (
            f"slow link of {self.who} for {self.seconds:.1f} s"
            f" ({self.rate:.0f} B/s, {self.late:.2f} s late), {self.when}"
        )


class Partition(_Fault, frozen=True, kw_only=True):
    """Nothing passes between these and the broker; what was sent meanwhile arrives afterwards."""

    who: tuple[str, ...]
    seconds: float

    def __str__(self) -> str:
        return f"cut off {' '.join(self.who)} for {self.seconds:.1f} s, {self.when}"


class FullDisk(_Fault, frozen=True, kw_only=True):
    """No file of this process can grow; if it ends of that, it is started again once there is room."""

    who: str
    seconds: float

    def __str__(self) -> str:
        return f"full disk of {self.who} for {self.seconds:.1f} s, {self.when}"


class ClockJump(_Fault, frozen=True, kw_only=True):
    """The clock on this process's wall jumps."""

    who: str
    seconds: float

    def __str__(self) -> str:
        return f"clock of {self.who} jumps {self.seconds:+.0f} s, {self.when}"


class DoubleStart(_Fault, frozen=True, kw_only=True):
    """The command of a process that runs is given once more."""

    who: str
    copied: bool = False
    """From a copy of its whole folder, key and all, as from a backup."""

    def __str__(self) -> str:
        where = " from a copy of its folder" if self.copied else ""
        return f"start {self.who} a second time{where}, {self.when}"


Fault = Kill | Terminate | Stall | Reset | HalfOpen | Slow | Partition | FullDisk | ClockJump | DoubleStart
KINDS: Final[tuple[type[Fault], ...]] = (
    Kill,
    Terminate,
    Stall,
    Reset,
    HalfOpen,
    Slow,
    Partition,
    FullDisk,
    ClockJump,
    DoubleStart,
)


NAMES: Final[dict[type[Fault], str]] = {
    Kill: "kill (SIGKILL)",
    Terminate: "terminate (SIGTERM)",
    Stall: "stall (SIGSTOP, SIGCONT)",
    Reset: "reset connections",
    HalfOpen: "half-open link",
    Slow: "slow link",
    Partition: "cut off from the broker",
    FullDisk: "full disk",
    ClockJump: "clock jumps",
    DoubleStart: "started a second time",
}
"""What each kind is called in tables."""


class Field(Struct, frozen=True):
    """What faults are drawn for: who there is, and what passes by in a round."""

    parties: tuple[str, ...]
    rounds: int
    """That faults wait for."""
    spare: int
    """Parties that may be gone at the same time without costing every round."""
    sights: dict[str, tuple[str, ...]]
    """Kinds of frames that rounds have, by who sends them: ``server``, ``party``, and ``dealer`` if any."""

    @property
    def processes(self) -> tuple[str, ...]:
        """All but the broker."""
        dealer = (DEALER,) if DEALER in self.sights else ()
        return (SERVER, *dealer, *self.parties)


def draw(seed: int, field: Field, most: int = 6) -> tuple[Fault, ...]:
    """A list of one to ``most`` faults; the same for the same seed and field.

    Every second seed also kills the server, in one phase after the other.
    """
    rng = random.Random(f"faults {seed}")
    gone: set[str] = set()
    found: list[Fault] = []
    for _ in range(rng.randint(1, most)):
        kind = rng.choice(KINDS)
        found.append(_MAKERS[kind](rng, field, gone))
    if seed % 2 == 0:
        found.append(_kill_of_server(rng, field, seed // 2))
    return tuple(sorted(found, key=lambda fault: (fault.when.round, str(fault))))


def of_kind(kind: type[Fault], seed: int, field: Field) -> Fault:
    """One fault of this kind."""
    return _MAKERS[kind](random.Random(f"{kind.__name__} {seed}"), field, set())


def _kill_of_server(rng: random.Random, field: Field, number: int) -> Fault:
    """Kill the server at the sight of this number, of all that there are."""
    sights = [(by, kind) for by, kinds in field.sights.items() for kind in kinds]
    by, kind = sights[number % len(sights)]
    by = rng.choice(field.parties) if by == "party" else by
    round_ = -1 if kind in _OUTSIDE else rng.randrange(field.rounds)
    held = by == SERVER and rng.random() < 0.5
    delay = 0.0 if held or rng.random() < 0.5 else round(rng.uniform(0.0, 0.3), 3)
    back = round(rng.uniform(0.1, 3.0), 2)
    return Kill(when=When(by, kind, round_, delay, held), who=SERVER, back=back)


def _when(rng: random.Random, field: Field, who: str, *, before: float = 0.4) -> When:
    """Half of the time as ``who`` itself sends something, else as anybody does."""
    by = who if who in field.processes and rng.random() < 0.5 else rng.choice(field.processes)
    kinds = field.sights[by if by in field.sights else "party"]
    held = by == who and rng.random() < before
    delay = 0.0 if held or rng.random() < 0.3 else round(rng.expovariate(4.0), 3)
    kind, round_ = rng.choice(kinds), rng.randrange(field.rounds)
    return When(by, kind, -1 if kind in _OUTSIDE else round_, min(delay, 2.0), held)


def _mortals(field: Field) -> list[str]:
    """Who may end and come back."""
    dealer = [DEALER] if DEALER in field.sights else []
    # Parties half of the time, however many of them there are.
    weight = max(1, len(field.parties) // 3)
    return [*field.parties, *([BROKER, SERVER, *dealer] * weight)]


def _kill(rng: random.Random, field: Field, gone: set[str]) -> Fault:
    who = rng.choice(_mortals(field))
    when = _when(rng, field, who)
    if who in field.parties and len(gone) < field.spare and rng.random() < 0.2:
        gone.add(who)
        return Kill(when=when, who=who)
    twice = who != BROKER and rng.random() < 0.3
    return Kill(when=when, who=who, back=round(rng.uniform(0.1, 4.0), 2), twice=twice)


def _terminate(rng: random.Random, field: Field, _gone: set[str]) -> Fault:
    who = rng.choice(_mortals(field))
    return Terminate(when=_when(rng, field, who), who=who, back=round(rng.uniform(0.1, 4.0), 2))


def _stall(rng: random.Random, field: Field, _gone: set[str]) -> Fault:
    who = rng.choice([*field.parties, SERVER, SERVER, BROKER, BROKER])
    return Stall(when=_when(rng, field, who), who=who, seconds=round(rng.uniform(0.2, 6.0), 2))


def _some(rng: random.Random, field: Field) -> tuple[str, ...]:
    """One process, a few parties, or everybody."""
    how = rng.random()
    if how < 0.4:
        return (rng.choice(field.processes),)
    if how < 0.85:
        return tuple(sorted(rng.sample(field.parties, rng.randint(1, max(1, field.spare)))))
    return field.processes


def _reset(rng: random.Random, field: Field, _gone: set[str]) -> Fault:
    who = _some(rng, field)
    return Reset(when=_when(rng, field, who[0]), who=who)


def _half_open(rng: random.Random, field: Field, _gone: set[str]) -> Fault:
    who = rng.choice(field.processes)
    way: Way = rng.choice(["up", "down", "both"])
    return HalfOpen(when=_when(rng, field, who), who=who, way=way)


def _slow(rng: random.Random, field: Field, _gone: set[str]) -> Fault:
    who = rng.choice(field.processes)
    rate = 10 ** rng.uniform(3.3, 5.0) * (len(field.parties) if who == SERVER else 1)
    return Slow(
        when=_when(rng, field, who),
        who=who,
        seconds=round(rng.uniform(1.0, 8.0), 2),
        rate=round(rate),
        late=round(rng.uniform(0.0, 0.5), 3),
    )


def _partition(rng: random.Random, field: Field, _gone: set[str]) -> Fault:
    who = _some(rng, field)
    return Partition(when=_when(rng, field, who[0]), who=who, seconds=round(rng.uniform(0.5, 8.0), 2))


def _full_disk(rng: random.Random, field: Field, _gone: set[str]) -> Fault:
    who = rng.choice([one for one in _mortals(field) if one != BROKER])
    return FullDisk(when=_when(rng, field, who), who=who, seconds=round(rng.uniform(0.5, 4.0), 2))


def _clock_jump(rng: random.Random, field: Field, _gone: set[str]) -> Fault:
    who = rng.choice(field.processes)
    seconds = rng.choice([-1, 1]) * round(10 ** rng.uniform(1, 7.5))
    return ClockJump(when=_when(rng, field, who), who=who, seconds=seconds)


def _double_start(rng: random.Random, field: Field, _gone: set[str]) -> Fault:
    who = rng.choice([*field.parties, *[SERVER] * 3])
    return DoubleStart(when=_when(rng, field, who), who=who, copied=rng.random() < 0.5)


_MAKERS: Final[dict[type[Fault], Callable[[random.Random, Field, set[str]], Fault]]] = {
    Kill: _kill,
    Terminate: _terminate,
    Stall: _stall,
    Reset: _reset,
    HalfOpen: _half_open,
    Slow: _slow,
    Partition: _partition,
    FullDisk: _full_disk,
    ClockJump: _clock_jump,
    DoubleStart: _double_start,
}


def listed(faults: Sequence[Fault]) -> str:
    """One line for each."""
    return "\n".join(f"  {fault}" for fault in faults)
