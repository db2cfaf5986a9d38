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
    """Number of latest rounds of which the server keeps the model; None for all."""
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
    """One process of one run."""

    scenario: Scenario
    run: RunId
    name: PartyId
    identity: crypto.Identity | Path
    """Its private keys: in a file of its owner's, or, from a launcher, themselves. Those are in no file."""
    roster_file: Path
    broker: transport.BrokerUrl | transport.Brokers
    """Where the run is; of several the first that takes this process, and another one where that is lost."""
    broker_patience: float = 60.0
    """Seconds without any broker, or the others at it, after which this process gives up."""
    data_file: Path
    """A party's samples, or the server's test set, as ``--data`` names them; nothing where sites train."""
    server_data_file: Path | None = None
    """Only for the server, where its rule needs them: training samples of its own, named alike."""
    out: Path
    """Directory for transcript, journal and results; the process writes only files that carry its name."""
    accounted: bool = False
    """Whether the launcher has checked on this machine that the releases keep to the privacy budget."""
    alone: bool = False
    """Whether the launcher knows that no other server leads this run: broker or run id are its own."""
    own_budget: float | None = None
    """A party's own limit of epsilon for its data, earlier runs included; the scenario's counts as well."""
    own_spent: float = 0.0
    """The epsilon that earlier runs have spent of it."""
    account: Path | None = None
    """Where a party keeps what it gives away over all its runs; None for a key that ends with the run."""
    keep_heard: bool = False
    """Only for a party: whether the last model that it heard of is kept in a file."""
    gpu_processes: int = 1
    """Training processes of this machine that share its GPU."""
    coalition_dir: Path | None = None
    """Where attackers tell each other what they trained: a directory of this machine that no honest party
    reads. Only where several of a coalition run on it."""
    resumes: bool = False
    """Whether another process of this name goes on where this one is ended. Not so where keys end with it."""
    frame_limit: int | None = None
    """Largest frame the broker takes in bytes; measured at start when None."""
