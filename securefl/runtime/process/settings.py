"""Settings of one process, besides the scenario."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from securefl.base import crypto
from securefl.base.entropy import Entropy, InsecureSeededEntropy, OsEntropy
from securefl.base.ids import PartyId, RunId
from securefl.runtime import transport
from securefl.scenario import Scenario

_NO_RUN: Final = RunId("")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options that runs, simulations and single processes share."""

    run: RunId = _NO_RUN
    """A launcher makes one if it is empty."""
    seed: int = 0
    """Seed of initial model, split and behaviours, all public."""
    insecure: bool = False
    """True if all secrets follow from ``seed``, for tests and replay."""
    device: str | None = None
    """Device that replaces ``training.device``."""
    out: Path | None = None
    """Run folder; a launcher makes ``runs/<name>-<time>`` if None."""
    site: str = ""
    """Each party's site as ``module:name``, if sites train."""
    site_python: Path | None = None
    """Interpreter of each site's separate process; None for the party's process."""
    site_memory: int = 0
    """MB of addresses of such a process; 0 for any."""


@dataclass(frozen=True, kw_only=True)
class RecordOptions(Options):
    """Options of recorded runs and their processes."""

    lab: bool = False
    """True if whole vectors and the ground truth are recorded."""
    keep_models: int | None = 0
    """Latest rounds whose model the server keeps; None for all."""
    transcript_bytes: int | None = None
    """Bound of each process's transcripts, kept by deleting the oldest rounds."""

    @property
    def insecure_seed(self) -> int | None:
        """Seed of all secrets; None for the operating system's."""
        return self.seed if self.insecure else None

    def entropy(self) -> Entropy:
        """Return the root of secret randomness."""
        return InsecureSeededEntropy(self.seed) if self.insecure else OsEntropy()


def shared_fields(source: object, target: type[Any]) -> dict[str, Any]:
    """Return the values of ``source`` for the fields of the dataclass ``target``."""
    return {one.name: getattr(source, one.name) for one in fields(target) if hasattr(source, one.name)}


@dataclass(frozen=True, kw_only=True)
class MetricsOptions:
    """Address at which a process serves metrics, health and readiness."""

    metrics_port: int | None = None
    """None for no endpoint; 0 for any free port."""
    metrics_host: str = "127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class ProcessSettings(RecordOptions, MetricsOptions):
    """Settings of one process of one run."""

    scenario: Scenario
    run: RunId
    name: PartyId
    identity: crypto.Identity | Path
    """Private keys; a launcher's are in no file."""
    roster_file: Path
    broker: transport.BrokerUrl | transport.Brokers
    """The first that accepts this process is used, and another if it is lost."""
    broker_patience: float = 60.0
    """Seconds before giving up without any broker, or other processes at it."""
    data_file: Path
    """A party's samples, or the test set; empty if sites train."""
    server_data_file: Path | None = None
    """Server's own training samples, if its rule needs them."""
    out: Path
    """Folder in which the process writes only files with its name."""
    accounted: bool = False
    """True if the launcher on this machine has checked the privacy budget."""
    alone: bool = False
    """True if no other server can lead: the launcher owns the broker or the run id."""
    own_budget: float | None = None
    """Epsilon limit of a party's data over all runs, besides the scenario's."""
    own_spent: float = 0.0
    account: Path | None = None
    """None for a key that ends with the run."""
    keep_heard: bool = False
    gpu_processes: int = 1
    coalition_dir: Path | None = None
    """Folder in which attackers exchange updates; honest parties do not read it."""
    resumes: bool = False
    """True if another process of this name can resume."""
    frame_limit: int | None = None
    """Maximum frame in bytes; measured at start when None."""
