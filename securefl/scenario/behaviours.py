"""The ``[[behaviours]]`` tables: bases of attacks on data and updates, and all faults."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from msgspec import Meta

from securefl.base.errors import ConfigError
from securefl.scenario import section
from securefl.scenario.parts import Part

if TYPE_CHECKING:
    from securefl.base.arrays import F32, F64, I64, Inputs
    from securefl.base.entropy import Entropy

Phase = Literal[
    "before-keys", "after-keys", "after-shares", "after-masked-input", "after-freeze", "after-release"
]


class Behaviour(Part, tag_field="kind", frozen=True, kw_only=True):
    """Common fields of all behaviours."""

    homes: ClassVar[tuple[str, ...]] = ("securefl.methods.attacks.parts", "securefl.scenario.behaviours")
    usual: ClassVar[str] = "label-flip"
    required: ClassVar[tuple[str, ...]] = ("craft",)

    parties: tuple[section.Name, ...] = ()
    """Names of the parties that show the behaviour."""
    count: section.NonNegative = 0
    """Number of parties, in place of ``parties``: drawn by the public seed from those without a named
    behaviour or another count."""
    rounds: tuple[section.NonNegative, ...] = ()
    """Rounds in which it acts, from 0. Empty: all."""

    @property
    def kind(self) -> str:
        """Name in a scenario file."""
        return self.name

    def acts(self, round_: int) -> bool:
        """Return True if the behaviour acts in a round."""
        return not self.rounds or round_ in self.rounds

    @property
    def members(self) -> int:
        """Number of parties that show the behaviour."""
        return len(self.parties) or self.count


class Poisoning(Behaviour, frozen=True, kw_only=True):
    """Behaviour that changes a party's part in the model, which a rule has to withstand."""

    honest_until: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    """Fraction of ``stop.rounds`` before which the party is honest, to gain trust (adaptive attacks)."""

    def check(self, path: str, parties: int) -> None:
        """Check that an attack has an effect and that its coalition is large enough.

        Raises: ConfigError: it is not; it names a field of the table at ``path``.
        """


class DataAttack(Poisoning, frozen=True, kw_only=True):
    """Base of attacks that train on changed data. A subclass defines ``poison``.

    >>> import numpy as np, securefl
    >>> class Blank(securefl.DataAttack, frozen=True, kw_only=True):
    ...     def poison(self, x, y, classes):
    ...         return np.zeros_like(x), y
    >>> Blank(count=1).poison(np.ones((2, 3), dtype=np.float32), np.array([0, 1]), 2)[0].sum()
    np.float32(0.0)
    """

    required: ClassVar[tuple[str, ...]] = ("poison",)
    images_only: ClassVar[bool] = False
    trigger: ClassVar[tuple[str, ...]] = ()
    """Fields that all backdoors of one scenario must share, since one success is measured; empty for other
    attacks.
    """

    def poison(self, x: Inputs, y: I64, classes: int) -> tuple[Inputs, I64]:
        """Return samples and labels to train on, in the form of ``x`` and ``y``, which must not be changed.

        Args:
            x: samples, f32 ``(n, ...)``; for a text i64 ``(n, length)``.
            y: labels in [0, ``classes``), i64 ``(n,)``; for a text i64 ``(n, length)``.
            classes: number of classes.
        """
        raise NotImplementedError

    def trigger_samples(self, x: Inputs, y: I64) -> tuple[Inputs, I64]:
        """Return test samples with a backdoor's trigger, and the labels that it aims at."""
        raise NotImplementedError

    def check_on_data(self, path: str, classes: int, shape: tuple[int, ...]) -> None:
        """Check that the data set has the labels and images that the attack needs.

        Raises: ConfigError: it has not; it names a field of the table at ``path``.
        """


class UpdateAttack(Poisoning, frozen=True, kw_only=True):
    """Base of attacks that replace the trained update. A subclass defines ``craft``.

    All parties of one table form one coalition. On arrays: ``attack(x)``.

    >>> import numpy as np, securefl
    >>> class Backwards(securefl.UpdateAttack, frozen=True, kw_only=True):
    ...     def craft(self, update, before, entropy):
    ...         return -update
    >>> Backwards()(np.array([1.0, 2.0]))
    array([-1., -2.])
    """

    required: ClassVar[tuple[str, ...]] = ("craft",)

    actors: section.Positive | None = None
    """Members of the coalition that act in a round, chosen in view of its clusters; the others are honest
    in that round. None: all."""
    placement: Literal["concentrate", "spread"] = "spread"
    """Choice of ``actors``: ``concentrate`` hits the fewest clusters of all reclusterings, ``spread`` the
    most."""

    def craft(self, update: F64, before: F32, entropy: Entropy) -> F64:
        """Return the party's false update, f64 ``(d,)``.

        Args:
            update: trained update, f64 ``(d,)``: new parameters minus ``before``.
            before: parameters of the round, f32 ``(d,)``.
            entropy: the attacker's random numbers.
        """
        raise NotImplementedError

    def __call__(self, x: Any, *, before: Any = None, byzantine: int = 1, seed: int | None = None) -> Any:  # noqa: ARG002
        """Return the update that an attacker sends in place of the trained update ``x``.

        Args:
            x: array or tensor of any shape; the result has its form.
            before: parameters of the round in the shape of ``x``; 0 by default.
            byzantine: for coalitions only.
            seed: of the attack's own draws; fresh entropy by default.

        Raises:
            ConfigError: ``x`` has a value that is not finite.
        """
        from securefl.scenario import direct  # noqa: PLC0415 - numpy

        return direct.craft(self, x, before, seed)

    def settle(self, parties: int, attackers: int) -> Self:  # noqa: ARG002 - for those that override it
        """Return a copy with the fields that follow from the numbers of parties and attackers."""
        return self

    def check(self, path: str, parties: int) -> None:  # noqa: ARG002 - for those that override it
        """Check ``actors`` and ``placement``, like :meth:`Poisoning.check`."""
        if self.actors is None:
            if self.placement != "spread":
                reason = "has no effect: all attackers act"
                raise ConfigError(f"{path}.placement", reason, "give actors")
        elif self.actors > self.members:
            reason = f"{self.actors} are more than the {self.members} attackers"
            raise ConfigError(f"{path}.actors", reason, f"set it to {self.members} at most")


class CoalitionAttack(UpdateAttack, frozen=True, kw_only=True):
    """Base of attacks with knowledge of honest updates. A subclass defines ``collude``.

    >>> import numpy as np, securefl
    >>> class Opposite(securefl.CoalitionAttack, frozen=True, kw_only=True):
    ...     def collude(self, known, actors, entropy):
    ...         return -known.mean(axis=0)
    >>> Opposite()(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([-2., -3.])
    """

    required: ClassVar[tuple[str, ...]] = ("collude",)

    @property
    def rows_needed(self) -> int:
        """Least number of known updates with which the attack is defined and differs from them."""
        return 1

    @property
    def alike(self) -> bool:
        """True if all members send one update, which is then computed once."""
        return True

    def __call__(self, x: Any, *, before: Any = None, byzantine: int = 1, seed: int | None = None) -> Any:  # noqa: ARG002
        """Return the update of an attacker that knows the honest updates ``x``, as in ``ALIE(z=1.5)(x)``.

        Args:
            x: k updates of one shape, ``(k, ...)``: a numpy array, a torch tensor, or a list of either.
            before: not used.
            byzantine: number of attackers, besides those k.
            seed: of the attack's own draws; fresh entropy by default.

        Returns:
            An update, with the dtype of ``x`` (f64 for integers), on its device.

        Raises:
            ConfigError: fewer updates than the attack needs, or no effect for these numbers.
        """
        from securefl.scenario import direct  # noqa: PLC0415 - numpy

        return direct.collude(self, x, byzantine, seed)

    def collude(self, known: F64, actors: int, entropy: Entropy) -> F64:
        """Return the false update of a member, f64 ``(d,)``.

        Args:
            known: known updates, f64 ``(k, d)``, k >= ``rows_needed``.
            actors: number of acting attackers.
            entropy: the attacker's random numbers; not used if all members are ``alike``.
        """
        raise NotImplementedError


class InformedAttack(CoalitionAttack, frozen=True, kw_only=True):
    """Base of coalitions that estimate from several honest updates; more updates help."""

    knowledge: Literal["coalition", "omniscient"] = "coalition"
    """Known updates. ``coalition``: the updates that the members trained, as a sample of all; at least 2,
    against Krum 3. ``omniscient``: those of all parties without an attack, as many papers assume;
    ``simulate`` only."""

    @property
    def rows_needed(self) -> int:
        """Least number of known updates."""
        return 2

    def check(self, path: str, parties: int) -> None:
        """Check that the coalition knows enough updates, like :meth:`Poisoning.check`."""
        super().check(path, parties)
        if self.knowledge == "coalition" and self.members < self.rows_needed:
            needed = self.rows_needed
            raise ConfigError(
                f"{path}.count",
                f"{self.kind} needs {needed} colluding parties or more, the scenario has {self.members}",
                f'count = {needed} or more, or knowledge = "omniscient" in simulations',
            )


class NoClip(Poisoning, tag="no-clip", frozen=True, kw_only=True):
    """Update without the clip to ``encoding.clip``; refused without a clip.

    >>> from securefl.sections import NoClip
    >>> NoClip(count=1).members
    1
    """


class SparseEnergy(Poisoning, tag="sparse-energy", frozen=True, kw_only=True):
    """Vector on few coordinates against the party's update, below the power of norm and distribution tests.

    The agreed noise is added to it. Refused without privacy noise.

    >>> from securefl.sections import SparseEnergy
    >>> SparseEnergy(count=1).coordinates
    79
    """

    coordinates: section.Positive = 79
    """Number of coordinates, at most d: those with the largest change in the party's own update."""
    spreads: section.PositiveReal = 30.0
    """L2 norm of the vector, in standard deviations of the noise in one coordinate of an upload."""


class NoNoise(Behaviour, tag="no-noise", frozen=True, kw_only=True):
    """Upload without privacy noise, except components that the server removes for dropouts.

    Refused without noise. With ``threshold`` noise such parties count among ``secure_sum.colluders``.

    >>> from securefl.sections import NoNoise
    >>> NoNoise(count=2).members
    2
    """


class FalseCount(Behaviour, tag="false-count", frozen=True, kw_only=True):
    """False number of samples in every round; the training is honest.

    No effect with ``weighting.mode = "ignore"``.

    >>> from securefl.sections import FalseCount
    >>> FalseCount(count=1, samples=100_000).members
    1
    """

    samples: Annotated[int, Meta(ge=1, le=2**31)]
    """Declared number of samples."""


class FalseMetrics(Behaviour, tag="false-metrics", frozen=True, kw_only=True):
    """Best or worst metrics that the number of samples allows; the training is honest.

    Refused without ``[evaluation]``.

    >>> from securefl.sections import FalseMetrics
    >>> FalseMetrics(count=2, extreme="least").kind
    'false-metrics'
    """

    extreme: Literal["most", "least"] = "most"
    """Upper or lower end of the possible values."""


class Drop(Behaviour, tag="drop", frozen=True, kw_only=True):
    """Silence from ``phase`` to the end of the round; the party returns in the next.

    >>> from securefl.sections import Drop
    >>> Drop(parties=("p01",), phase="after-shares").acts(0)
    True
    """

    phase: Phase
    """Step before or after which the party falls silent. From ``after-masked-input`` on its update still
    counts. ``after-release``: it verifies nothing."""
    announced: bool = True
    """True if the broker announces it by a last will, as for a broken connection. If not, the server waits
    for the deadline."""


class Kill(Behaviour, tag="kill", frozen=True, kw_only=True):
    """SIGKILL of the party's process, which stays dead.

    >>> from securefl.sections import Kill
    >>> Kill(parties=("p01",), phase="before-keys").members
    1
    """

    phase: Phase
    """Step before or after which the process is killed."""


class Garbage(Behaviour, tag="garbage", frozen=True, kw_only=True):
    """Bytes that are not a message.

    >>> from securefl.sections import Garbage
    >>> Garbage(count=1, rounds=(2,)).acts(1)
    False
    """


class WrongShare(Behaviour, tag="wrong-share", frozen=True, kw_only=True):
    """Released shares that do not match their published hashes.

    >>> from securefl.sections import WrongShare
    >>> WrongShare(count=1).kind
    'wrong-share'
    """


class Replay(Behaviour, tag="replay", frozen=True, kw_only=True):
    """Resent frames, and old messages under fresh signatures.

    >>> from securefl.sections import Replay
    >>> Replay(count=1).kind
    'replay'
    """


class ServerBehaviour(Behaviour, frozen=True, kw_only=True):
    """Base of dishonest servers, for experiments; a scenario names a subclass as ``module:Name``.

    >>> import securefl
    >>> class Honest(securefl.ServerBehaviour, frozen=True, kw_only=True):
    ...     def around(self, honest, plan):
    ...         return honest
    >>> Honest().around("machine", None)
    'machine'
    """

    required: ClassVar[tuple[str, ...]] = ("around",)

    def check(self, path: str, parties: Collection[str]) -> None:
        """Check that the fields fit the run.

        Raises: ConfigError: they do not; it names a field of the table at ``path``.
        """

    def around(self, honest: Any, plan: Any) -> Any:
        """Return the state machine of the dishonest server.

        Args:
            honest: ``kernel.Machine`` whose ``start(now)`` and ``step(phase, event)`` return phase and
                effects.
            plan: the ``RunPlan``.
        """
        raise NotImplementedError
