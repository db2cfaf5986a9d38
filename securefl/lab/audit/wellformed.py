"""Validation of the transcript fields that audits read: a hash chain does not validate contents."""

from typing import Annotated, Final

import msgspec

from securefl.base.errors import ConfigError
from securefl.runtime.transcript import SAMPLES, Transcript

_Names = tuple[str, ...]
_Seed = Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{64})?$")]
_AtomSeed = Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{64}([0-9a-f]{4})*)?$")]
_Name = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
"""Name of a file in ``transcripts/frames``."""
_Key = tuple[int, int]


class _Vector(msgspec.Struct):
    digest: str
    length: Annotated[int, msgspec.Meta(ge=0)]
    dtype: Annotated[str, msgspec.Meta(pattern="^(u?int|float)(8|16|32|64)$")]
    samples: list[int | float | None]
    head: Annotated[int, msgspec.Meta(ge=0)] | None = None

    def __post_init__(self) -> None:
        head = self.length if self.head is None else min(self.head, self.length)
        if len(self.samples) != min(head, SAMPLES) + min(self.length - head, SAMPLES):
            raise ValueError(f"{len(self.samples)} samples do not match {self.length} coordinates")


class _ClustersDrawn(msgspec.Struct):
    round: int
    assignment_digest: str
    clusters: tuple[tuple[_Names, ...], ...]
    resting: _Names = ()
    seed: _Seed | None = None
    counts: tuple[tuple[str, int], ...] = ()
    atom_seed: _AtomSeed = ""
    tasks: tuple[int, ...] = ()
    groups: tuple[tuple[str, int], ...] = ()
    cap: int | None = None


class _SurvivorsFrozen(msgspec.Struct):
    round: int
    survivors: _Names


class _SharesReleased(msgspec.Struct):
    round: int
    instances: tuple[_Key, ...]
    attempts: tuple[int, ...] = ()
    seeds_of: tuple[_Names, ...] = ()
    keys_of: tuple[_Names, ...] = ()

    def __post_init__(self) -> None:
        lengths = {len(self.attempts), len(self.seeds_of), len(self.keys_of)}
        if lengths not in ({0}, {len(self.instances)}):
            raise ValueError("each instance needs one entry")


class _Opened(msgspec.Struct):
    reclustering: int
    cluster: int
    members: _Names
    survivors: _Names
    ring: _Vector


class _SlotsCounted(msgspec.Struct):
    round: int
    cluster: int
    counts: tuple[int, ...]
    slots: tuple[int, ...]
    seats: tuple[int, ...]


class _SumOpened(msgspec.Struct):
    round: int
    opened: _Opened


class _SumChecked(msgspec.Struct):
    round: int
    reclustering: int
    cluster: int
    ok: bool


class _RoundStarted(msgspec.Struct):
    round: int
    model_digest: str


class _ModelStepped(msgspec.Struct):
    round: int
    kept: tuple[_Key, ...]
    rejected: tuple[_Key, ...]
    update_norm: float | None


class _StepRestored(msgspec.Struct):
    round: int
    update_norm: float | None


class _RoundDone(msgspec.Struct):
    round: int
    accuracy: float | None
    loss: float | None
    backdoor_success: float | None = None


class _ModelFinal(msgspec.Struct):
    round: int
    params: _Vector


class _Message(msgspec.Struct):
    message: str
    place: tuple[int, int, int, int]
    sha256: str | None = None
    vector: _Vector | None = None
    params: _Vector | None = None

    def __post_init__(self) -> None:
        if (self.sha256 is None) == (self.vector is None) or (self.message == "MaskedInput") != bool(
            self.vector
        ):
            raise ValueError("a message needs a digest, a masked input a vector")


class _Received(_Message, kw_only=True):
    sender: str = msgspec.field(name="from")
    kept: _Name | None = None
    claim: _Name | None = None
    length: Annotated[int, msgspec.Meta(ge=0)] | None = None


class _Sent(_Message, kw_only=True):
    to: str


class _Frame(msgspec.Struct):
    topic: str
    sha256: str


_SHAPES: Final[dict[str, type[msgspec.Struct]]] = {
    "clusters_drawn": _ClustersDrawn,
    "survivors_frozen": _SurvivorsFrozen,
    "shares_released": _SharesReleased,
    "slots_counted": _SlotsCounted,
    "sum_opened": _SumOpened,
    "sum_checked": _SumChecked,
    "round_started": _RoundStarted,
    "model_stepped": _ModelStepped,
    "step_restored": _StepRestored,
    "round_done": _RoundDone,
    "model_final": _ModelFinal,
    "model_kept": _ModelFinal,
    "received": _Received,
    "sent": _Sent,
    "frame": _Frame,
}


def check_entries(transcript: Transcript) -> None:
    """Refuse a transcript with an invalid entry.

    Raises:
        ConfigError: it names file, entry and field.
    """
    for entry in transcript.entries:
        shape = _SHAPES.get(entry.kind)
        if shape is None:
            continue
        try:
            msgspec.convert(entry.fields, shape, strict=True)
        except msgspec.ValidationError as error:
            raise ConfigError(
                str(transcript.path),
                f"entry {entry.n} is not a valid {entry.kind}: {error}",
                "use the version of securefl that wrote it, or restore the file",
            ) from error
