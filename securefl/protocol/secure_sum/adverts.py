"""Checks of an attempt's key list at members and server."""

from collections.abc import Sequence

from securefl.base import crypto
from securefl.base.errors import PeerError
from securefl.base.ids import SERVER
from securefl.protocol import messages, wire
from securefl.protocol.secure_sum.setup import Setup, key_list_digest


def check_advert(setup: Setup, sender: str, advert: messages.KeyAdvert) -> None:
    """Raise PeerError for a key of low order, or a wrong number of noise secrets.

    Such an advert would later stop the whole cluster.
    """
    # Sums that need all listed members have no superfluous noise to share.
    secrets = 0 if setup.everyone else setup.components
    if len(advert.noise_digests) != secrets:
        reason = f"advertised {len(advert.noise_digests)} noise secrets, not {secrets}"
        raise PeerError(sender, f"{reason}, in {setup.describe()}")
    try:
        crypto.check_public(advert.mask_key)
        crypto.check_public(advert.box_key)
    except crypto.BadKeyError as error:
        raise PeerError(sender, f"advertised a bad key ({error})") from error


def read_key_list(
    setup: Setup, frames: Sequence[bytes], roster: crypto.Roster
) -> tuple[dict[int, messages.KeyAdvert], bytes]:
    """Return the adverts by member number (ascending), and the digest of the list.

    Raises:
        PeerError: a frame is not a key of this attempt, a member or key repeats, or fewer than
            ``min_survivors`` members are listed.
    """
    adverts: dict[int, messages.KeyAdvert] = {}
    by_index: dict[int, bytes] = {}
    keys: set[bytes] = set()
    for frame in frames:
        delivery = wire.open_relayed(frame, roster, setup.instance.run, SERVER, SERVER)
        if delivery.place != setup.place or not isinstance(delivery.message, messages.KeyAdvert):
            raise PeerError(SERVER, f"sends something else than a key of {setup.describe()}")
        index = setup.index(delivery.sender)
        if index in adverts:
            raise PeerError(SERVER, f"sends two keys of {delivery.sender}")
        fresh = {delivery.message.mask_key, delivery.message.box_key}
        if len(fresh) != 2 or fresh & keys:
            raise PeerError(delivery.sender, f"reuses a key in {setup.describe()}")
        check_advert(setup, delivery.sender, delivery.message)
        keys |= fresh
        adverts[index] = delivery.message
        by_index[index] = frame
    if len(adverts) < setup.min_survivors:
        raise PeerError(
            SERVER, f"sends a key list of {setup.describe()} with fewer than min_survivors members"
        )
    return {index: adverts[index] for index in sorted(adverts)}, key_list_digest(by_index)
