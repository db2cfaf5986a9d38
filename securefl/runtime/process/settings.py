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
    """Id of the run; a launcher makes one if it is empty."""
    seed: int = 0
    """Seed of public choices: initial model, split, behaviours."""
    insecure: bool = False
    """True if all secrets follow from ``seed``, for tests and replay."""
    device: str | None = None
    """Device of training on this machine instead of ``training.device``."""
    out: Path | None = None
    """Run directory; a launcher makes ``runs/<name>-<time>`` if None."""
    site: str = ""
    """Site of each party as ``module:name``, for a model that sites train."""
    site_python: Path | None = None
    """Interpreter of a separate process of each site; None for the party's process."""
    site_memory: int = 0
    """MB of addresses that such a process may use; 0 for any."""


@dataclass(frozen=True, kw_only=True)
class RecordOptions(Options):
    """Options of recorded runs and their processes."""

    lab: bool = False
    """True if whole vectors and the ground truth are recorded."""
    keep_models: int | None = 0
    """Number of latest rounds whose model the server keeps; None for all."""
    transcript_bytes: int | None = None
    """Bound of the transcripts of each process; the oldest rounds are deleted. None for any."""

    @property
    def insecure_seed(self) -> int | None:
        """Seed of all secrets; None if the operating system provides them."""
        return self.seed if self.insecure else None

    def entropy(self) -> Entropy:
        """Return the root of secret randomness."""
        return InsecureSeededEntropy(self.seed) if self.insecure else OsEntropy()


def shared_fields(source: object, target: type[Any]) -> dict[str, Any]:
    """Return the values of ``source`` for the fields of the dataclass ``target``."""
    return {one.name: getattr(source, one.name) for one in fields(target) if hasattr(source, one.name)}


@dataclass(frozen=True, kw_only=True)
class ProcessSettings(RecordOptions):
    """Settings of one process of one run."""

    scenario: Scenario
    run: RunId
    name: PartyId
    identity: crypto.Identity | Path
    """Private keys: the owner's file, or the keys themselves from a launcher, which are in no file."""
    roster_file: Path
    broker: transport.BrokerUrl | transport.Brokers
    """Brokers of the run; the first that accepts this process is used, and another if it is lost."""
    broker_patience: float = 60.0
    """Seconds without any broker, or other processes at it, after which this process gives up."""
    data_file: Path
    """A party's samples, or the server's test set, as for ``--data``; empty if sites train."""
    server_data_file: Path | None = None
    """Server only, if its rule needs them: its own training samples, named alike."""
    out: Path
    """Directory for transcript, journal and results; the process writes only files with its name."""
    accounted: bool = False
    """True if the launcher on this machine has checked the privacy budget."""
    alone: bool = False
    """True if no other server can lead this run: the launcher owns the broker or the run id."""
    own_budget: float | None = None
    """A party's own limit of epsilon for its data, earlier runs included; the scenario's applies as well."""
    own_spent: float = 0.0
    """Epsilon of the budget that earlier runs have spent."""
    account: Path | None = None
    """File of a party's releases over all runs; None for a key that ends with the run."""
    keep_heard: bool = False
    """Party only: True if the last received model is kept in a file."""
    gpu_processes: int = 1
    """Number of training processes that share this machine's GPU."""
    coalition_dir: Path | None = None
    """Directory in which attackers of one machine exchange updates; None without such a coalition. Honest
    parties do not read it."""
    resumes: bool = False
    """True if another process of this name can resume; False if keys end with the process."""
    frame_limit: int | None = None
    """Maximum frame of the broker in bytes; measured at start when None."""
