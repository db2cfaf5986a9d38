"""Setups of chaos runs: scenarios that cover kinds of sums, reclusterings, noise and verification.

Models are small and deadlines short, so that a run takes seconds and a silent party costs few of them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from securefl.runtime.transport.broker import BrokerKind, find_mosquitto
from tests.chaos.faults import DEALER, SERVER, Field
from tests.unit.cli.programs import call

_BASE: Final = """
name = "chaos"
parties = {parties}
[data]
classes = 10
shape = [1, 8, 8]
standardise = {{ mean = 0.0, deviation = 1.0 }}
[model]
type = "softmax"
[training]
epochs = 1
device = "cpu"
[clustering]
size = {size}
{clustering}
[secure_sum]
threshold = {threshold}
min_survivors = {survivors}
{sums}
[deadlines]
join = 12
hello = 4
reveal = 4
keys = 4
shares = 4
training = 6
certify = 4
release = 4
verify = 4
quorum = 100
[stop]
rounds = {rounds}
{more}
"""

_JOINS = ("JoinRun",)
_MASKED = (*_JOINS, "Hello", "Reveal", "KeyAdvert", "ShareBoxes", "MaskedInput", "Receipt", "Release")
_ENDORSED = (*_MASKED, "Endorse")
_VERIFYING = ("Hello", "ChainedReveal", "KeyAdvert", "ShareBoxes", "MaskedInput", "VectorReceipt", "Endorse")
_VERIFIED = (*_JOINS, *_VERIFYING, "Release", "Attest")
_SHARED = (*_JOINS, "Hello", "Reveal", "KeyAdvert", "MaskedInput", "Receipt", "Release")
_VALIDATED = (*_SHARED, "PeerBox", "Held", "SketchNonce", "Verdict")
_INVITES = ("RollCall", "ModelAnnounce", "Invite", "Announce", "Reveals", "KeyList")
_LEADS = (*_INVITES, "BoxList", "Freeze", "Goodbye")
_CERTIFIES = (*_LEADS, "Certificate")
_CHAINS = ("RollCall", "ModelAnnounce", "Invite", "ChainedAnnounce", "Reveals", "KeyList", "BoxList")
_PROVES = (*_CHAINS, "BindingFreeze", "Certificate", "OpeningProof", "StepProof", "Goodbye")
_ADDS = (*_INVITES, "Freeze", "Goodbye")
_VALIDATES = (*_ADDS, "DealRequest", "DealtTo", "HeldList", "SketchNonces", "Verdicts")
_DEALS = ("JoinRun", "Dealt")
"""What each says in a run of its kind, heartbeats and complaints left out."""


@dataclass(frozen=True)
class Setup:
    """A scenario with what carries it."""

    name: str
    text: str
    field: Field
    records: int = 0
    """Settle the privacy for so many records; 0 for none."""
    broker: BrokerKind = "mosquitto"
    persistent: bool = False
    """Whether the broker keeps sessions and retained frames on disk."""
    training: float = 0.3
    """Seconds that training takes longer."""

    def write(self, path: Path) -> None:
        """Write the scenario as all processes are given it."""
        path.write_text(self.text)
        if self.records:
            raw = path.with_name("unsettled.toml")
            path.rename(raw)
            done = call("dp", "settle", raw, "--records", str(self.records), "--out", path)
            assert done.exit_code == 0, done.output

    def __str__(self) -> str:
        kept = " that keeps sessions" if self.persistent else ""
        return f"{self.name} over {self.broker}{kept}, training {self.training:g} s"


def _setup(
    name: str,
    *,
    parties: int = 7,
    size: int = 3,
    threshold: int = 2,
    survivors: int = 2,
    rounds: int = 5,
    clustering: str = "",
    sums: str = "",
    more: str = "",
    party: tuple[str, ...] = _MASKED,
    lead: tuple[str, ...] = _LEADS,
    dealer: tuple[str, ...] = (),
    spare: int = 2,
    records: int = 0,
) -> Setup:
    text = _BASE.format(
        parties=parties,
        size=size,
        threshold=threshold,
        survivors=survivors,
        rounds=rounds,
        clustering=clustering,
        sums=sums,
        more=more,
    )
    sights = {SERVER: lead, "party": party} | ({DEALER: dealer} if dealer else {})
    names = tuple(f"p{number:02d}" for number in range(parties))
    return Setup(name, text, Field(names, rounds, spare, sights), records)


def _private(name: str, budget: float, last: int) -> Setup:
    noise = f"""[encoding]
clip = 1.0
scale_bits = 9
[privacy]
unit = "party"
multiplier = 1.5
budget = {budget}
"""
    made = _setup(name, parties=8, size=4, threshold=2, survivors=3, more=noise, records=40)
    return replace(made, field=msgspec.structs.replace(made.field, rounds=last))


_COMMITTEE: Final = """server = "active"
verify = "committee"
colluders = 1
colluders_per_cluster = 1
"""


def _verified(name: str, parties: int, size: int, threshold: int) -> Setup:
    return _setup(
        name,
        parties=parties,
        size=size,
        threshold=threshold,
        survivors=threshold,
        sums=_COMMITTEE,
        party=_VERIFIED,
        lead=_PROVES,
    )


SETUPS: Final = {
    one.name: one
    for one in (
        _setup("masks"),
        _setup(
            "masks-active",
            parties=8,
            threshold=3,
            survivors=3,
            sums='server = "active"\nverify = "off"',
            party=_ENDORSED,
            lead=_CERTIFIES,
        ),
        _setup("masks-r2", parties=8, size=4, threshold=3, survivors=3, clustering="reclusterings = 2"),
        _setup(
            "masks-new-work",
            parties=6,
            threshold=2,
            clustering="reclusterings = 2\nnew_work = true",
        ),
        # Who stays away must not make a cluster too large for an active server.
        _verified("verified", parties=8, size=6, threshold=5),
        _verified("verified-two", parties=12, size=5, threshold=4),
        _setup("crypten", parties=7, sums='kind = "crypten"', party=_SHARED, lead=_ADDS),
        _setup(
            "validated",
            parties=6,
            sums='kind = "crypten"\nvalidate = { norm = 1.5, projections = 24, failure = 0.1 }',
            more='[weighting]\nmode = "ignore"\n[encoding]\nclip = 1.35',
            party=_VALIDATED,
            lead=_VALIDATES,
            dealer=_DEALS,
        ),
        _private("privacy", budget=3.0, last=5),
        # For some of the rounds only: parties leave one by one, and the run ends when too few are left.
        _private("privacy-spent", budget=1.6, last=3),
    )
}


def drawn(seed: int) -> Setup:
    """The setup of a seed: which scenario, over which broker, how long training takes."""
    rng = random.Random(f"setup {seed}")
    setup = SETUPS[rng.choice(sorted(SETUPS))]
    brokers: list[tuple[BrokerKind, bool]] = [("embedded", False)]
    if find_mosquitto() is not None:
        brokers = [*brokers, ("mosquitto", False), ("mosquitto", True)]
    broker, persistent = rng.choice(brokers)
    return replace(setup, broker=broker, persistent=persistent, training=rng.choice([0.1, 0.4, 1.0]))
