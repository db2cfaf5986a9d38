"""Checkpoints of a simulation, bound to scenario and seed."""

from collections.abc import Collection
from pathlib import Path

import msgspec

from securefl import scenario
from securefl.base import crypto
from securefl.base.errors import ConfigError
from securefl.base.files import write_whole
from securefl.base.ids import PartyId
from securefl.protocol.round import Checkpoint, RunPlan, ServerState, has_carry
from securefl.runtime import process, transcript

CHECKPOINT_FILE = "simulation.checkpoint"

_VERSION = "securefl simulation 12"
_ANEW = "start again with another --out"


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: str
    of: str
    training: str
    dead: tuple[PartyId, ...]
    server: bytes


def write_checkpoint(
    path: Path, plan: RunPlan, standing: ServerState, dead: Collection[PartyId], *, training: str
) -> None:
    """Write the next round's initial state, replacing the former checkpoint atomically.

    ``training`` is :attr:`securefl.runtime.simulation.federation.SimulatedFederation.training`.

    Raises:
        RunAbortedError: the write failed.
    """
    server = process.checkpoint_bytes(plan, Checkpoint(standing.epoch, standing))
    file = _File(_VERSION, _identity(plan), training, tuple(sorted(dead)), server)
    with transcript.writing(path):
        write_whole(path, msgspec.msgpack.encode(file))


def read_checkpoint(path: Path, plan: RunPlan, *, training: str) -> tuple[ServerState, frozenset[PartyId]]:
    """Return the state of the next round, and the killed parties.

    Raises:
        ConfigError: missing, damaged, of another scenario, seed or model, or of another training.
    """
    _refuse_state_of_parties(plan)
    if not path.is_file():
        reason = "has no checkpoint: no round was finished"
        raise ConfigError(str(path), reason, "leave out --resume, and choose another --out")
    try:
        file = msgspec.msgpack.decode(path.read_bytes(), type=_File)
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise ConfigError(str(path), f"is not a checkpoint: {error}", _ANEW) from error
    if file.version != _VERSION:
        raise ConfigError(str(path), "is not a checkpoint of a simulation by this version", _ANEW)
    if file.of != _identity(plan):
        raise ConfigError(
            str(path),
            "belongs to another scenario, seed or model",
            "give the same scenario and --seed, or another --out",
        )
    if file.training != training:
        raise ConfigError(
            str(path),
            f"belongs to a simulation that trains {file.training}, this one trains {training}",
            "give --exact, --device and --data-dir as before, or another --out",
        )
    if not plan.roster.parties.keys() >= set(file.dead):
        raise ConfigError(str(path), "is a damaged checkpoint: it names unknown parties", _ANEW)
    try:
        state = process.checkpoint_from(file.server, plan, str(path))
    except ConfigError as error:
        raise ConfigError(str(path), error.reason, _ANEW) from error
    return state.standing, frozenset(file.dead)


def _refuse_state_of_parties(plan: RunPlan) -> None:
    kept = {
        "momentum goes on from each party's own upload": has_carry(plan, "own"),
        "parties keep control variates from round to round": plan.scenario.training.method.controls,
        "parties keep the task group that they named": plan.scenario.groups.choice_epsilon is not None,
    }
    for what, holds in kept.items():
        if holds:
            raise ConfigError("--resume", f"{what}, which no checkpoint holds", _ANEW)


def _identity(plan: RunPlan) -> str:
    return crypto.digest("checkpoint", scenario.to_toml(plan.scenario), plan.config_digest()).hex()
