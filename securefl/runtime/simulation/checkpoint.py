"""Checkpoints of a simulation: one safetensors file, whole or absent, bound to scenario and seed."""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from securefl import scenario
from securefl.base import crypto
from securefl.base.arrays import F32, F64
from securefl.base.errors import ConfigError, RunAbortedError
from securefl.base.files import write_whole
from securefl.base.ids import PartyId
from securefl.methods import clustering, privacy
from securefl.protocol.round import BestSoFar, RunPlan, Standing, Suspicion, Trust, carries, groups_of

CHECKPOINT_FILE = "checkpoint.safetensors"

_VERSION = "securefl simulation 11"
_NUMBERS = (
    "round",
    "best_accuracy",
    "stale_rounds",
    "unused_rounds",
    "updates",
    "fruitless_rounds",
    "lone_rounds",
    "lone_seconds",
    "clip",
)


def write_checkpoint(
    path: Path, plan: RunPlan, standing: Standing, dead: Collection[PartyId], *, training: str
) -> None:
    """Write what the next round starts from. A former checkpoint stays until the new one is complete.

    ``training`` says how and on what the rounds so far were trained
    (:attr:`securefl.runtime.simulation.federation.SimulatedFederation.training`): it decides bits.

    Raises:
        RunAbortedError: the disk is full or gone.
    """
    lasting = standing.lasting()
    state = {name: lasting[name] for name in _NUMBERS}
    state |= {"dead": sorted(dead), "scores": dict(standing.trust.scores)}
    if standing.progress.best is not None:
        state["best"] = [standing.progress.best.round, standing.progress.best.value]
    state["releases"] = dict(standing.releases)
    state["atom_seed"] = standing.atom_seed.hex()
    state["suspicion"] = [
        [group, one.logs, one.log_highest, one.rounds] for group, one in standing.suspicion.items()
    ]
    meta = {
        "version": _VERSION,
        "of": _identity(plan),
        "training": training,
        "state": json.dumps(state),
    }
    arrays: dict[str, F32 | F64] = {"params": standing.params, "moments": standing.moments}
    if standing.trust.gradient is not None:
        arrays["gradient"] = standing.trust.gradient
    if standing.before is not None:
        arrays["before"] = standing.before
    if standing.progress.best is not None:
        arrays["best"] = standing.progress.best.params
    try:
        write_whole(path, save(arrays, metadata=meta))
    except OSError as error:
        raise RunAbortedError(f"{path}: cannot be written: {error.strerror}") from error


def read_checkpoint(path: Path, plan: RunPlan, *, training: str) -> tuple[Standing, frozenset[PartyId]]:
    """Return where to go on, and who has been killed.

    Raises:
        ConfigError: missing, damaged, of another scenario, seed or model, or of another training.
    """
    if carries(plan, "own"):
        raise ConfigError(
            "--resume",
            "momentum goes on from each party's own upload, which no checkpoint holds",
            "begin anew, with another --out",
        )
    if plan.scenario.training.method.controls:
        raise ConfigError(
            "--resume",
            "parties keep control variates from round to round, which no checkpoint holds",
            "begin anew, with another --out",
        )
    if plan.scenario.groups.choice_epsilon is not None:
        raise ConfigError(
            "--resume",
            "parties keep the task group that they named, which no checkpoint holds",
            "begin anew, with another --out",
        )
    if not path.is_file():
        reason = "there is no checkpoint: no round of it has ended"
        raise ConfigError(str(path), reason, "leave --resume out, with another --out")
    try:
        with safe_open(path, "numpy") as file:
            meta = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    except (OSError, SafetensorError) as error:
        raise ConfigError(str(path), f"is no checkpoint: {error}") from error
    if meta.get("version") != _VERSION:
        raise ConfigError(str(path), "is no checkpoint of a simulation by this version")
    if meta.get("of") != _identity(plan):
        raise ConfigError(
            str(path),
            "is the checkpoint of another scenario, seed or model",
            "give the same scenario, --set and --seed, or another --out",
        )
    if meta.get("training") != training:
        raise ConfigError(
            str(path),
            f"is the checkpoint of a simulation that trains {meta.get('training')}, this one {training}",
            "give --exact, --device and --data-dir as before, or another --out",
        )
    try:
        return _standing(arrays, json.loads(meta["state"]), plan)
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(str(path), f"is a damaged checkpoint: {error}") from error


def _standing(
    arrays: dict[str, Any], state: dict[str, Any], plan: RunPlan
) -> tuple[Standing, frozenset[PartyId]]:
    for name, array in arrays.items():
        dtype = np.float32 if name in {"params", "before", "best"} else np.float64
        length = plan.broadcast
        shape = (plan.optimiser.moments, length) if name == "moments" else (length,)
        if array.dtype != dtype or array.shape != shape:
            raise ValueError(f"{name} is no array {shape} of {dtype.__name__}")
    dead = frozenset(PartyId(name) for name in state["dead"])
    earned = {PartyId(name): float(score) for name, score in dict(state["scores"]).items()}
    releases = {PartyId(name): int(made) for name, made in dict(state["releases"]).items()}
    if not plan.roster.parties.keys() >= dead | earned.keys() | releases.keys():
        raise ValueError("it names parties that there are not")
    atom_seed = bytes.fromhex(state["atom_seed"])
    if atom_seed and not clustering.is_founded(atom_seed):
        raise ValueError("its seed of atoms is none")
    if not all(map(math.isfinite, earned.values())):
        raise ValueError("it has scores that are not finite")
    best = (
        BestSoFar(int(state["best"][0]), float(state["best"][1]), arrays["best"])
        if "best" in arrays
        else None
    )
    lasting = {
        "params": arrays["params"],
        "moments": arrays["moments"],
        "trust": Trust(MappingProxyType(earned), arrays.get("gradient")),
        "before": arrays.get("before"),
        "releases": MappingProxyType(releases),
        "suspicion": _suspicion(state["suspicion"], plan),
        "atom_seed": atom_seed,
        "best": best,
        **{name: state[name] for name in _NUMBERS},
    }
    return Standing.of(lasting), dead


def _suspicion(rows: list[Any], plan: RunPlan) -> Suspicion:
    found = {
        tuple(map(PartyId, group)): privacy.CheckEvidence(
            tuple(map(float, logs)), float(highest), int(rounds)
        )
        for group, logs, highest, rounds in rows
    }
    if not found.keys() <= set(groups_of(plan)):
        raise ValueError("it has evidence of groups that there are not")
    if not all(math.isfinite(log) for one in found.values() for log in (*one.logs, one.log_highest)):
        raise ValueError("it has evidence that is not finite")
    return MappingProxyType(found)


def _identity(plan: RunPlan) -> str:
    """The digest of everything that the rounds follow from: all of the scenario, run, roster, model size."""
    return crypto.digest("checkpoint", scenario.to_toml(plan.scenario), plan.config_digest()).hex()
