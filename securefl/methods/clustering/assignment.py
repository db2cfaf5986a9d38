"""Assignment of parties to clusters, R times, from the certified seed: every party recomputes it.

All assignments are equally likely (SHARE, Algorithm 1). The certified seed hashes nonces to which parties
have committed (protocol.md, step 2). A withheld nonce voids the draw: skipping it would let the server choose
among the seeds of all subsets.

Fixed clusters are a baseline for experiments (SHARE, Section 6 and Figure 9). Their seed hashes the run's id
and configuration, so the party that starts the run may try ids until the clusters suit it.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from securefl.base import crypto
from securefl.base.crypto import digest, encode
from securefl.base.ids import PartyId, RunId
from securefl.methods.clustering.sizes import cluster_sizes

ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True)
class Assignment:
    """All clusters of one round: ``clusters[r][j]`` are the sorted members of cluster j in reclustering r."""

    participants: tuple[PartyId, ...]
    clusters: tuple[tuple[tuple[PartyId, ...], ...], ...]
    atoms: tuple[tuple[PartyId, ...], ...] = ()
    """Atoms (:mod:`securefl.methods.clustering.atoms`) of which clusters are unions; empty: none."""
    tasks: tuple[int, ...] = ()
    """Task group of cluster j, in every reclustering; empty if clusters are not inside groups."""

    def digest(self) -> bytes:
        """Return the hash (32 bytes) that keys and endorsements are bound to."""
        rows = [
            encode(r, j, *members) for r, row in enumerate(self.clusters) for j, members in enumerate(row)
        ]
        blocks = [encode("atom", *members) for members in self.atoms]
        tasks = [encode("tasks", *self.tasks)] if self.tasks else []
        return digest("assignment", encode(*self.participants), *rows, *blocks, *tasks)

    def of(self, party: PartyId) -> tuple[tuple[int, int], ...]:
        """Return the (reclustering, cluster) pairs of ``party``: one per reclustering."""
        return tuple(
            (r, j) for r, row in enumerate(self.clusters) for j, members in enumerate(row) if party in members
        )


def draw_assignment(
    seed: bytes, present: Iterable[PartyId], wanted: int, size: int, reclusterings: int
) -> Assignment:
    """Draw participants and clusters from the certified seed, 32 bytes.

    ``present`` parties revealed a nonce, ``wanted`` take part in clusters of at least ``size`` members.
    """
    ordered = sorted(present)
    chosen = shuffle(ordered, seed, "participants")[:wanted]
    participants = tuple(sorted(chosen))
    rows = []
    for r in range(reclusterings):
        order = shuffle(participants, seed, f"reclustering {r}")
        row, start = [], 0
        for members in cluster_sizes(len(participants), size):
            row.append(tuple(sorted(order[start : start + members])))
            start += members
        rows.append(tuple(row))
    return Assignment(participants, tuple(rows))


def shuffle(items: Sequence[ItemT], seed: bytes, purpose: str) -> list[ItemT]:
    """Return the items shuffled by Fisher-Yates, with rejection sampling over SHAKE-256 words of 64 bits."""
    result = list(items)
    words = _words(digest("shuffle", seed, purpose), 2 * len(result) + 64)
    position = 0
    for last in range(len(result) - 1, 0, -1):
        bound = last + 1
        limit = 2**64 - 2**64 % bound
        while (word := words[position]) >= limit:
            position += 1
        position += 1
        other = word % bound
        result[last], result[other] = result[other], result[last]
    return result


def _words(key: bytes, count: int) -> list[int]:
    # A word is rejected with probability below 2^-47, so twice the need plus 64 is never exhausted in
    # practice. An IndexError there would stop the round for all parties alike.
    raw = hashlib.shake_256(key).digest(8 * count)
    return [int.from_bytes(raw[i : i + 8], "little") for i in range(0, len(raw), 8)]


def fixed_seed(run: RunId, config: bytes) -> bytes:
    """Return the seed (32 bytes) of a run's fixed clusters."""
    return crypto.digest("fixed clusters", run, config)


def fixed_assignment(
    seed: bytes, roster: Iterable[PartyId], present: Collection[PartyId], size: int, fewest: int
) -> Assignment:
    """Return the fixed clusters of one round, restricted to the present members.

    The whole roster is assigned by the :func:`fixed_seed` before absent parties are removed, so cluster mates
    never change. Whole clusters have at least ``size`` members. Those with fewer than ``fewest`` left are not
    part of the round, and later ones move up in the numbering.
    """
    all_parties = sorted(roster)
    (whole,) = draw_assignment(seed, all_parties, len(all_parties), size, 1).clusters
    there = (tuple(party for party in members if party in present) for members in whole)
    row = tuple(members for members in there if len(members) >= fewest)
    return Assignment(tuple(sorted(party for members in row for party in members)), (row,))


def commitment(nonce: bytes, run: RunId, round_: int, draw: int, party: PartyId) -> bytes:
    """Return the commitment (32 bytes) to a nonce: binding, and hiding, as the nonce is 256 random bits."""
    return crypto.digest("nonce commitment", run, round_, draw, party, nonce)


def certified_seed(
    nonces: Mapping[PartyId, bytes], run: RunId, round_: int, draw: int, model: bytes, config: bytes
) -> bytes:
    """Return the round's seed (32 bytes) over participants, digests and *all* nonces."""
    fields: list[str | bytes] = []
    for party in sorted(nonces):
        fields += [party, nonces[party]]
    return crypto.digest("round seed", run, round_, draw, model, config, *fields)
