"""Checkpoints of a server: one file, whole or absent, of named parts (ADR 0054).

An identifying line, the SHA-256 of the rest (32 bytes), and a MessagePack map: version, digest of the run,
parts. Missing parts have initial values. Unknown parts are refused: omitting one could lose a count of
releases. It holds no key and nothing secret from the server.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from securefl.base import files
from securefl.base.errors import ConfigError, RunAbortedError, SecureflError, UsageError
from securefl.base.ids import SERVER, PartyId
from securefl.methods import encoding
from securefl.protocol import kernel, secure_sum
from securefl.protocol.round import (
    CertifiedRound,
    ChainLink,
    Checkpoint,
    ClusterKey,
    PendingClaim,
    RoundDone,
    RunPlan,
    ServerState,
    StoredOpening,
)

VERSION: Final = 1
"""Written version; earlier ones are read."""
CHECKPOINT: Final = "server.checkpoint"
_HEAD: Final = b"securefl server checkpoint\n"
_STORED_PENDING: Final = {"verifiers_by_place": "asked"}
"""Names in the file of fields of a pending claim that were renamed."""
_ONLY_GIVEN: Final = frozenset({"values"})
_DAMAGED: Final = (msgspec.MsgspecError, ValueError, LookupError, TypeError, RecursionError, SecureflError)
_GO_ON: Final = "restore the newest copy, or start a new run with another --run and another --out"


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    of: bytes
    """:meth:`RunPlan.config_digest`."""
    parts: dict[str, bytes]


class _PendingPart(msgspec.Struct, frozen=True):
    """Pending claim, with the server's parts before the round."""

    link: ChainLink
    certified: CertifiedRound
    before: dict[str, msgspec.Raw]
    asked: dict[kernel.Place, frozenset[PartyId]]
    attests: dict[kernel.Place, dict[PartyId, bytes]]


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray):
        return {
            "dtype": value.dtype.str,
            "shape": list(value.shape),
            "data": np.ascontiguousarray(value).tobytes(),
        }
    if isinstance(value, Mapping):
        return dict(value)
    raise UsageError(f"cannot write a checkpoint: {type(value).__name__} has no stored form")


def _array(kind: Any, value: Any) -> object:
    found = np.frombuffer(value["data"], np.dtype(value["dtype"])).reshape(value["shape"])
    expected = np.dtype(kind.__args__[1].__args__[0])
    if found.dtype != expected:
        raise ValueError(f"an array of {found.dtype} in place of {expected}")
    return found.copy()


_encoder = msgspec.msgpack.Encoder(enc_hook=_plain)


@lru_cache(maxsize=1)
def _types() -> Mapping[str, Any]:
    kinds = {name: part.type for name, part in ServerState.checkpoint_parts().items()}
    return kinds | {"pending": _PendingPart | None, "done": RoundDone | None, "norm": float | None}


def _types_of(plan: RunPlan) -> Mapping[str, Any]:
    collected: Any = plan.sums.server.collected
    return {**_types(), "certified": StoredOpening, "instances": dict[ClusterKey, collected]}


def checkpoint_bytes(plan: RunPlan, state: Checkpoint) -> bytes:
    """Return the contents of a checkpoint file."""
    parts = _lasting(state.standing) | {"epoch": state.epoch, "done": state.done}
    parts |= _certified_parts(state.certified)
    if state.norm is not None:
        parts["norm"] = state.norm
    encoded = {name: _encoder.encode(value) for name, value in parts.items()}
    body = _encoder.encode(_File(VERSION, plan.config_digest(), encoded))
    return b"".join((_HEAD, hashlib.sha256(body).digest(), body))


def _lasting(standing: ServerState) -> dict[str, Any]:
    parts = {n: value for n, value in standing.checkpoint_values().items() if n not in _ONLY_GIVEN or value}
    if standing.claims.pending is not None:
        pending = standing.claims.pending
        names = (field.name for field in fields(pending))
        whole = {_STORED_PENDING.get(name, name): getattr(pending, name) for name in names}
        parts["pending"] = whole | {"before": _lasting(pending.before)}
    return parts


def _standing(parts: Mapping[str, Any]) -> ServerState:
    pending: _PendingPart | None = parts.get("pending")
    if pending is None:
        return ServerState.from_checkpoint(parts)
    kinds = _types()
    before = {n: _decode_part(raw, kinds[n]) for n, raw in pending.before.items() if n in kinds}
    whole = PendingClaim(pending.link, pending.certified, _standing(before), pending.asked, pending.attests)
    return ServerState.from_checkpoint({**parts, "pending": whole})


def _decode_part(part: msgspec.Raw | bytes, kind: Any) -> Any:
    return msgspec.msgpack.decode(part, type=kind, dec_hook=_array)


def _certified_parts(certified: StoredOpening | None) -> dict[str, object]:
    """Return the parts of a round whose shares were requested.

    Instances are apart, without noise removers, which follow from the plan.
    """
    if certified is None:
        return {}
    frozen = certified.frozen
    apart = replace(certified, frozen=replace(frozen, instances={}))
    plain = {
        key: replace(one, setup=replace(one.setup, removable=None)) for key, one in frozen.instances.items()
    }
    return {"certified": apart, "instances": plain}


def _certified_from(
    plan: RunPlan,
    certified: StoredOpening | None,
    instances: Mapping[ClusterKey, secure_sum.CollectingInputs] | None,
) -> StoredOpening | None:
    if certified is None:
        return None
    whole = {
        key: replace(one, setup=replace(one.setup, removable=plan.removable_noise(one.setup.length)))
        for key, one in (instances or {}).items()
    }
    _check_whole(plan, certified, whole)
    return replace(certified, frozen=replace(certified.frozen, instances=whole))


def _check_whole(
    plan: RunPlan, certified: StoredOpening, instances: Mapping[ClusterKey, secure_sum.CollectingInputs]
) -> None:
    """Raise ValueError unless each sum of a round has its fitting total or vectors."""
    survivors, clusters = certified.frozen.survivors, certified.view.assignment.clusters
    verified = {key for key, one in instances.items() if one.setup.verified}
    if certified.vectors.keys() != verified or certified.totals.keys() != instances.keys() - verified:
        raise ValueError("it lacks what is added up of a sum, or has it of another one")
    for (r, j), one in instances.items():
        setup = one.setup
        place = kernel.Place(*setup.instance[1:])
        row = clusters[r] if 0 <= r < len(clusters) else ()
        cluster = row[j] if 0 <= j < len(row) else ()
        if (place.reclustering, place.cluster) != (r, j) or not set(setup.members) <= set(cluster):
            raise ValueError(f"sum {(r, j)} is of another cluster")
        planned = plan.setup(place, setup.members, setup.binding)
        if (planned.length, planned.ring_bits, planned.threshold, planned.min_survivors) != (
            setup.length,
            setup.ring_bits,
            setup.threshold,
            setup.min_survivors,
        ):
            raise ValueError(f"sum {(r, j)} is of another size")
        vectors = certified.vectors[r, j] if setup.verified else {0: certified.totals[r, j]}
        if setup.verified and vectors.keys() != one.inputs.keys():
            raise ValueError(f"sum {(r, j)} lacks vectors")
        for vector in vectors.values():
            encoding.from_wire(vector, setup.length, setup.ring_bits, SERVER)
        one.names(one.holders(survivors))
        one.fixed_sum(survivors)


def checkpoint_from(content: bytes, plan: RunPlan, where: str) -> Checkpoint:
    """Return the checkpoint in a file's content.

    Raises:
        ConfigError: it is damaged, of another run or configuration, or of a later version.
    """
    head, rest = content[: len(_HEAD)], content[len(_HEAD) :]
    if head != _HEAD:
        raise ConfigError(where, "is not a checkpoint of a server", _GO_ON)
    if hashlib.sha256(rest[32:]).digest() != rest[:32]:
        raise ConfigError(where, "is a damaged checkpoint: its digest does not match", _GO_ON)
    try:
        file = msgspec.msgpack.decode(rest[32:], type=_File)
    except msgspec.MsgspecError as error:
        raise ConfigError(where, f"is a damaged checkpoint: {error}", _GO_ON) from error
    if file.version > VERSION:
        raise ConfigError(
            where,
            f"is a checkpoint of version {file.version}, this securefl reads up to {VERSION}",
            "use the securefl that wrote it, or a later one",
        )
    if file.of != plan.config_digest():
        raise ConfigError(
            where,
            "belongs to another run, scenario, roster or model",
            "give the same --run, scenario, --set, --seed and --roster, or another --out",
        )
    unknown = sorted(file.parts.keys() - _types_of(plan).keys())
    if unknown:
        raise ConfigError(
            where,
            f"holds {unknown[0]!r}, which this securefl does not know",
            "use the securefl that wrote it, or a later one",
        )
    return _state(file.parts, plan, where)


def _state(parts: Mapping[str, bytes], plan: RunPlan, where: str) -> Checkpoint:
    missing = [name for name in ("round", "params", "moments", "epoch") if name not in parts]
    if missing:
        raise ConfigError(where, f"is a damaged checkpoint: it lacks {missing[0]}", _GO_ON)
    name, found = "", dict[str, Any]()
    try:
        for name, kind in _types_of(plan).items():
            if name in parts:
                found[name] = _decode_part(parts[name], kind)
        name = "pending"
        standing = _standing(found)
        name = "certified"
        certified = _certified_from(plan, found.get("certified"), found.get("instances"))
    except _DAMAGED as error:
        raise ConfigError(where, f"is a damaged checkpoint: {name}: {error}", _GO_ON) from error
    _check_standing(standing, plan, where)
    return Checkpoint(standing.epoch, standing, found.get("done"), certified, found.get("norm"))


def _check_standing(standing: ServerState, plan: RunPlan, where: str) -> None:
    for name, value in standing.checkpoint_values().items():
        if isinstance(value, int) and value < 0:
            raise ConfigError(where, f"is a damaged checkpoint: {name} is {value}", _GO_ON)
    shapes = {"params": (plan.total_parameters,), "moments": (plan.optimiser.moments, plan.total_parameters)}
    for name, shape in shapes.items():
        if getattr(standing, name).shape != shape:
            raise ConfigError(where, f"is a damaged checkpoint: {name} is not an array {shape}", _GO_ON)


class CheckpointFile:
    """Checkpoint file of one server, replaced as a whole."""

    def __init__(self, folder: Path, plan: RunPlan) -> None:
        self.path = folder / CHECKPOINT
        self._plan = plan

    def read(self) -> Checkpoint | None:
        """Return the last checkpoint, if any.

        Raises:
            ConfigError: it cannot be read or is invalid (:func:`checkpoint_from`).
        """
        content = files.read_if_there(self.path)
        return None if content is None else checkpoint_from(content, self._plan, str(self.path))

    def keep(self, state: object) -> None:
        """Write a checkpoint durably.

        Raises:
            RunAbortedError: the write failed; the previous checkpoint stays.
            UsageError: ``state`` is not a checkpoint.
        """
        if not isinstance(state, Checkpoint):
            raise UsageError(f"state of a server must be a Checkpoint, found {type(state).__name__}")
        try:
            files.write_whole(self.path, checkpoint_bytes(self._plan, state), durable=True)
        except OSError as error:
            raise RunAbortedError(
                f"{self.path}: cannot be written: {error.strerror} (the last checkpoint stays: free disk "
                "space and start the server again)"
            ) from error

    def remove(self) -> None:
        """Delete the checkpoint after the run."""
        self.path.unlink(missing_ok=True)
