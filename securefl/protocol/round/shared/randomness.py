"""Labels of randomness, equal in runs and simulations with seeded entropy."""

from securefl.base.entropy import Entropy
from securefl.base.ids import PartyId
from securefl.protocol import kernel


def party_entropy(root: Entropy, me: PartyId) -> Entropy:
    """Return the entropy of one party, except for its keys."""
    return root.child("party", me)


def server_entropy(root: Entropy) -> Entropy:
    """Return the entropy of the server, except for its key."""
    return root.child("server")


def nonce_entropy(own: Entropy, round_: int, draw: int) -> Entropy:
    """Return the entropy of a party's nonce; ``own`` is its :func:`party_entropy`."""
    return own.child("nonce", round_, draw)


def instance_entropy(own: Entropy, place: kernel.Place) -> Entropy:
    """Return the entropy of a party's secrets in one attempt."""
    return own.child("instance", *place)


def group_entropy(own: Entropy, round_: int) -> Entropy:
    """Return the entropy of a party's random group."""
    return own.child("group", round_)


def training_entropy(own: Entropy, round_: int, work: int = 0) -> Entropy:
    """Return the entropy of local training: order of samples."""
    return _of_work(own.child("training", round_), work)


def sampling_entropy(own: Entropy, round_: int, reclustering: int) -> Entropy:
    """Return the entropy of a batch of the server's data; ``own`` is :func:`server_entropy`."""
    return own.child("sampling", round_, reclustering)


def update_entropy(own: Entropy, round_: int, work: int = 0) -> Entropy:
    """Return the entropy of a party's encoding of one work."""
    return _of_work(own.child("update", round_), work)


def attack_entropy(own: Entropy, round_: int, work: int = 0) -> Entropy:
    """Return the entropy of an attacker for one work."""
    return _of_work(own.child("attack", round_), work)


def _of_work(entropy: Entropy, work: int) -> Entropy:
    """Return the entropy of a work; work 0 has no label."""
    return entropy.child("work", work) if work else entropy
