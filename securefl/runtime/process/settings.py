"""Settings of one process, besides the scenario."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from securefl.base import crypto
from securefl.base.entropy import Entropy, InsecureSeededEntropy, OsEntropy
from securefl.base.ids import PartyId, RunId
from securefl.runtime import transport
from securefl.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSettings:
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
    site: str = ""
    """A party's own site, as ``module:name``, where the scenario's model is trained by sites."""
    site_python: Path | None = None
    """The interpreter of a process of the site's own; None for this process."""
    site_memory: int = 0
    """MB of addresses that such a process may use; 0 for any."""
    server_data_file: Path | None = None
    """Only for the server, where its rule needs them: training samples of its own, named alike."""
    out: Path
    """Directory for transcript, journal and results; the process writes only files that carry its name."""
    seed: int = 0
    """Fixes what is public: initial model, which parties misbehave."""
    insecure_seed: int | None = None
    """Tests and replay only: derive all secrets from this seed."""
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
    transcript_bytes: int | None = None
    """Bound of its transcripts, of all its starts together: the oldest rounds are deleted. None for any."""
    lab: bool = False
    """Record whole vectors and ground truth."""
    keep_models: int | None = 0
    """Only for the server: of how many rounds, the latest ones, each keeps its model; None for all."""
    keep_heard: bool = False
    """Only for a party: whether the last model that it heard of is kept in a file."""
    device: str | None = None
    """Overrides ``training.device`` on this machine."""
    gpu_processes: int = 1
    """Training processes of this machine that share its GPU."""
    coalition_dir: Path | None = None
    """Where attackers tell each other what they trained: a directory of this machine that no honest party
    reads. Only where several of a coalition run on it."""
    resumes: bool = False
    """Whether another process of this name goes on where this one is ended. Not so where keys end with it."""
    frame_limit: int | None = field(default=None)
    """Largest frame the broker takes in bytes; measured at start when None."""

    def entropy(self) -> Entropy:
        """Return the root of this process's randomness."""
        return OsEntropy() if self.insecure_seed is None else InsecureSeededEntropy(self.insecure_seed)
