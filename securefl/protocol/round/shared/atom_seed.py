"""Atom seed of a run: the certified seed of its first atom draw with all nonces revealed.

Each party stores it durably before any submission, and states it in later hellos. An absent party adopts the
seed that more than q others state: one is honest. No honest party takes part under two seeds, so its updates
open only together with its atom mates'.
"""

from collections import Counter
from collections.abc import Mapping

from securefl.base.errors import PeerError
from securefl.base.ids import SERVER, PartyId
from securefl.methods import clustering
from securefl.protocol import messages
from securefl.protocol.round.shared.metric_atoms import agreed_statement
from securefl.protocol.round.shared.plan import RunPlan


def atom_seed_of(plan: RunPlan, hellos: Mapping[PartyId, messages.Hello], known: bytes) -> bytes:
    """Return the seed of a round's atoms; if its draw forms them, the agreed statement of kept atoms.

    ``known`` is the caller's own seed.

    Raises:
        PeerError: hellos state two seeds, not the known one, or one of another roster; or too few confirm it
            to a party without one.
    """
    stated = Counter(hello.atom_seed for hello in hellos.values() if clustering.is_founded(hello.atom_seed))
    if len(stated) > 1 or (known and stated and known not in stated):
        raise PeerError(SERVER, "announces parties that were in different atoms")
    if not stated:
        return agreed_statement(plan, {party: hello.atom_seed for party, hello in hellos.items()})
    ((atom_seed, parties),) = stated.items()
    colluders = plan.scenario.secure_sum.colluders
    if not known and parties <= colluders:
        raise PeerError(SERVER, f"announces atoms that {parties} parties confirm, {colluders + 1} are needed")
    try:
        clustering.kept_in(atom_seed, plan.roster.parties)
    except ValueError as error:
        raise PeerError(SERVER, f"announces atoms with {error}") from error
    return atom_seed


def reason_atoms_unknown(hellos: Mapping[PartyId, messages.Hello], known: bytes) -> str | None:
    """Return why there can be no round despite enough parties, or None."""
    if known and not any(clustering.is_founded(hello.atom_seed) for hello in hellos.values()):
        return "none of them was there when the atoms were formed"
    return None
