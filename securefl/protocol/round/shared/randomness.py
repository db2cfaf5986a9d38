"""The names under which randomness is drawn: with seeded entropy, a run and a simulation draw the same."""

from securefl.base.entropy import Entropy
from securefl.base.ids import PartyId
from securefl.protocol import kernel


def party_entropy(root: Entropy, me: PartyId) -> Entropy:
    """Return what everything of one party but its keys is drawn from."""
    return root.child("party", me)


def server_entropy(root: Entropy) -> Entropy:
    """Return what everything of the server but its key is drawn from."""
    return root.child("server")


def nonce_entropy(own: Entropy, round_: int, draw: int) -> Entropy:
    """Return what a party draws its nonce from, given :func:`party_entropy`."""
    return own.child("nonce", round_, draw)


def instance_entropy(own: Entropy, place: kernel.Place) -> Entropy:
    """Return what a party draws the secrets of one attempt of one secure sum from."""
    return own.child("instance", *place)


def group_entropy(own: Entropy, round_: int) -> Entropy:
    """Return what a party that cannot choose its task group draws one from."""
    return own.child("group", round_)


def training_entropy(own: Entropy, round_: int, work: int = 0) -> Entropy:
    """Return what local training, a party's or the server's, draws from: the order of samples."""
    return _of_work(own.child("training", round_), work)


def sampling_entropy(own: Entropy, round_: int, reclustering: int) -> Entropy:
    """Return what the server draws a batch of its own data from, given :func:`server_entropy`."""
    return own.child("sampling", round_, reclustering)


def update_entropy(own: Entropy, round_: int, work: int = 0) -> Entropy:
    """Return what a party's encoding draws from, once per local work."""
    return _of_work(own.child("update", round_), work)


def attack_entropy(own: Entropy, round_: int, work: int = 0) -> Entropy:
    """Return what an attacker draws from, once per local work."""
    return _of_work(own.child("attack", round_), work)


def _of_work(entropy: Entropy, work: int) -> Entropy:
    """Work 0 has the labels of a round with one work, so that new work changes no bit of it."""
    return entropy.child("work", work) if work else entropy
