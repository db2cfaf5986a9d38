"""The ``[[behaviours]]`` tables: attacks and faults that some parties, or the server, show.

What each attack does, with formula and source, is in :mod:`securefl.runtime.misbehaviour`;
``docs/scenarios.md`` is the reference for people.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from securefl.scenario.section import Fraction, Name, NonNegative, Positive, PositiveReal, Section

Phase = Literal["before-keys", "after-keys", "after-shares", "after-masked-input", "after-freeze"]


class Behaviour(Section, tag_field="kind", frozen=True, kw_only=True):
    """What all have in common: who shows it, and when."""

    parties: tuple[Name, ...] = ()
    count: NonNegative = 0
    """Instead of ``parties``: this many, drawn by the public seed from those without a behaviour."""
    rounds: tuple[NonNegative, ...] = ()
    """Rounds in which it acts; empty means all."""

    @property
    def kind(self) -> str:
        """The name of the kind in a scenario file."""
        return str(type(self).__struct_config__.tag)


class Poisoning(Behaviour, frozen=True, kw_only=True):
    """What changes a party's part in the model, so that a rule has to withstand it."""

    honest_until: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    """Honest in the rounds before this fraction of ``stop.rounds``, to win trust first (adaptive)."""


class DataAttack(Poisoning, frozen=True, kw_only=True):
    """Trains on something else than the party's data."""


class LabelFlip(DataAttack, tag="label-flip", frozen=True, kw_only=True):
    """Class y becomes classes - 1 - y."""


class LabelShift(DataAttack, tag="label-shift", frozen=True, kw_only=True):
    """Class y becomes (y + shift) mod classes."""

    shift: int = 1


class Backdoor(DataAttack, tag="backdoor", frozen=True, kw_only=True):
    """A patch in the corner of some training images, labelled ``target``, so that it calls that class."""

    target: NonNegative = 0
    fraction: Fraction = 0.5
    """Of the party's samples that are patched."""
    size: Positive = 3
    """Width and height of the patch in pixels."""


class UpdateAttack(Poisoning, frozen=True, kw_only=True):
    """Sends another update than the trained one. All parties of one table are one coalition."""

    actors: Positive | None = None
    """How many of the coalition act in a round, chosen with the cluster plan in view; None: all of them."""
    placement: Literal["concentrate", "spread"] = "spread"
    """Which ``actors``: those in the fewest clusters, or over the most."""


class Scale(UpdateAttack, tag="scale", frozen=True, kw_only=True):
    """The own update times ``factor``: -1 flips the sign, -10 and -100 are scaled sign flips."""

    factor: float = -1.0


class Gaussian(UpdateAttack, tag="gaussian", frozen=True, kw_only=True):
    """Independent Gaussian noise instead of the update, or on top of it."""

    std: PositiveReal = 1.0
    """Of each coordinate, parameters' own unit."""
    add: bool = False
    """Whether it is added to the trained update."""


class ModelNegation(UpdateAttack, tag="model-negation", frozen=True, kw_only=True):
    """Sends minus the model, which as an update is -2 times the round's parameters: pulls it towards zero."""


class CoalitionAttack(UpdateAttack, frozen=True, kw_only=True):
    """Works with what the coalition's members trained honestly, which they tell each other."""


class InformedAttack(CoalitionAttack, frozen=True, kw_only=True):
    """Works with several honest updates, the more the better."""

    knowledge: Literal["coalition", "omniscient"] = "coalition"
    """``coalition``: takes what its members trained for a sample of all. ``omniscient``, as many papers
    assume: knows what every party without an attack trained. Simulations only."""


class FallOfEmpires(CoalitionAttack, tag="fall-of-empires", frozen=True, kw_only=True):
    """The mean of the coalition's updates times ``factor`` (SHARE, appendix D.1.1: beta)."""

    factor: float = -1.0


class InnerProductManipulation(InformedAttack, tag="inner-product-manipulation", frozen=True, kw_only=True):
    """Minus ``epsilon`` times the mean of the known honest updates."""

    epsilon: PositiveReal = 0.5


class Alie(InformedAttack, tag="alie", frozen=True, kw_only=True):
    """A little is enough: the mean of the known updates minus ``z`` standard deviations."""

    z: PositiveReal | None = None
    """None: the largest that the numbers of parties and attackers allow to hide."""


class Mimic(InformedAttack, tag="mimic", frozen=True, kw_only=True):
    """All send what one of the known parties trained, so that its data counts too much."""


class MinMax(InformedAttack, tag="min-max", frozen=True, kw_only=True):
    """As far from the known mean as the two most distant known updates are from each other."""

    direction: Literal["unit", "sign", "std"] = "std"


class MinSum(InformedAttack, tag="min-sum", frozen=True, kw_only=True):
    """As far from the known mean as the sum of squared distances of a known update allows."""

    direction: Literal["unit", "sign", "std"] = "std"


class LocalModelPoisoning(InformedAttack, tag="local-model-poisoning", frozen=True, kw_only=True):
    """Optimised against one rule: as far against the direction of training as the rule lets through."""

    against: Literal["trimmed-mean", "krum"] = "trimmed-mean"
    """``trimmed-mean`` is the one against the median too."""


class NoClip(Poisoning, tag="no-clip", frozen=True, kw_only=True):
    """Leaves out the clip to ``encoding.clip``."""


class SparseEnergy(Poisoning, tag="sparse-energy", frozen=True, kw_only=True):
    """Adds energy on few coordinates, against training, below what tests of length and law see in noise."""

    coordinates: Positive = 79
    """So many, at most d: those that its own update moves most."""
    spreads: PositiveReal = 30.0
    """L2 norm of what is added, in standard deviations of the noise in one coordinate of an upload."""


class NoNoise(Behaviour, tag="no-noise", frozen=True, kw_only=True):
    """Leaves out all of its privacy noise that is not going to be taken out of the sum."""


class FalseCount(Behaviour, tag="false-count", frozen=True, kw_only=True):
    """Declares another number of samples than it has, in every round; it trains on those that it has."""

    samples: Annotated[int, Meta(ge=1, le=2**31)]


class Drop(Behaviour, tag="drop", frozen=True, kw_only=True):
    """Falls silent in the round and is back in the next."""

    phase: Phase
    announced: bool = True
    """Whether the broker notices and says so, as for a broken connection. If not, the server waits for the
    deadline of the step."""


class Kill(Behaviour, tag="kill", frozen=True, kw_only=True):
    """The process dies (SIGKILL) and stays dead."""

    phase: Phase


class Garbage(Behaviour, tag="garbage", frozen=True, kw_only=True):
    """Sends bytes that mean nothing."""


class WrongShare(Behaviour, tag="wrong-share", frozen=True, kw_only=True):
    """Releases shares that are not those it was dealt."""


class Replay(Behaviour, tag="replay", frozen=True, kw_only=True):
    """Sends every message twice."""


class ServerBehaviour(Behaviour, frozen=True, kw_only=True):
    """Shown by the server, not by a party."""


class ServerAsksBothShares(ServerBehaviour, tag="server-asks-both-shares", frozen=True, kw_only=True):
    """Asks for seed and key shares of one party."""


class ServerChangesSurvivors(ServerBehaviour, tag="server-changes-survivors", frozen=True, kw_only=True):
    """Tells clusters different survivor sets."""


class ServerSplitsModel(ServerBehaviour, tag="server-splits-model", frozen=True, kw_only=True):
    """Sends one party another model than the others."""


class ServerReopensAttempt(ServerBehaviour, tag="server-reopens-attempt", frozen=True, kw_only=True):
    """Retries a sum after its freeze."""


class IsolatingServer(ServerBehaviour, frozen=True, kw_only=True):
    """Follows the protocol but for what it says never came, to be left with one party's update."""

    victim: Name
    accomplices: Annotated[tuple[Name, ...], Meta(max_length=1_000)] = ()
    """Parties that tell it their updates."""


class ServerWithholdsNonces(IsolatingServer, tag="server-withholds-nonces", frozen=True, kw_only=True):
    """Voids draws until the mates of its victim are accomplices, by saying that a nonce never came."""

    accomplices: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=1_000)]


class ServerDropsMates(IsolatingServer, tag="server-drops-mates", frozen=True, kw_only=True):
    """Says that masked inputs of its victim's mates never came, so that what is opened tells its update."""


PartyBehaviour = (
    LabelFlip
    | LabelShift
    | Backdoor
    | Scale
    | Gaussian
    | ModelNegation
    | FallOfEmpires
    | InnerProductManipulation
    | Alie
    | Mimic
    | MinMax
    | MinSum
    | LocalModelPoisoning
    | NoClip
    | SparseEnergy
    | NoNoise
    | FalseCount
    | Drop
    | Kill
    | Garbage
    | WrongShare
    | Replay
)
AnyBehaviour = (
    PartyBehaviour
    | ServerAsksBothShares
    | ServerChangesSurvivors
    | ServerSplitsModel
    | ServerReopensAttempt
    | ServerWithholdsNonces
    | ServerDropsMates
)
