"""The atom seed of a run: that of its first atom draw whose nonces were all revealed.

The certified seed of that draw forms the atoms of the whole roster. Each party that saw it keeps it, durably
before it submits anything, and states it in every later hello; so the hellos of a round, which all see
alike, say which atoms it has. A party that was not there takes the seed that more than q others state: one of
them is honest. No honest party ever takes part under two seeds, so that its updates are only opened with its
atom mates.
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
    """Return the seed of a round's atoms.

    Where this round's draw is to be the atom draw: the statement of kept atoms that goes into it, or nothing.

    Args:
        plan: of the run.
        hellos: of everybody who was announced.
        known: the seed that whoever asks keeps; empty for none. A party's own hello states it.

    Raises:
        PeerError: two seeds are stated; or one, but not the known one, or not by enough parties for somebody
            who knows none; or one with labels of another roster.
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


def forgotten(hellos: Mapping[PartyId, messages.Hello], known: bytes) -> str | None:
    """Return why there can be no round although enough are there; None where somebody knows the atoms."""
    if known and not any(clustering.is_founded(hello.atom_seed) for hello in hellos.values()):
        return "none of them was there when the atoms were formed"
    return None
