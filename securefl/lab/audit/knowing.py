"""Things known of a verified run besides its transcripts: models of its ends, a roster, keys of parties."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from securefl.base.crypto import read_identity, read_roster
from securefl.base.errors import ConfigError
from securefl.lab.audit.chain import Known
from securefl.lab.audit.convicted import charges_in
from securefl.lab.audit.recorded import Recorded


def known_of(
    recorded: Recorded,
    path: Path,
    data_dir: Path | None = None,
    roster: Path | None = None,
    keys: Sequence[Path] = (),
) -> Known:
    """Gather what is known of a run.

    Args:
        recorded: the run.
        path: its directory.
        data_dir: the folder of data sets, from which the size of the model follows.
        roster: the file whose signatures count; None for the roster that transcripts name.
        keys: private keys of parties whose proofs are to be repeated.

    Raises:
        ConfigError: a bad roster or key, or a damaged model file or charge.
    """
    own = None if roster is None else read_roster(roster)
    identities = {one.name: one for one in map(read_identity, keys)}
    for name in identities:
        if name not in recorded.parties:
            raise ConfigError("--key", f"is of {name}, who is no party of this run", "name a party's key")
    charges = charges_in(path)
    # Whoever audits a run that nobody verified needs no torch.
    from securefl.lab.audit.models import final_model, first_model  # noqa: PLC0415 - imports torch

    try:
        first = first_model(recorded, data_dir)
    except ConfigError as error:
        return Known(unknown=str(error), roster=own, identities=identities, charges=charges)
    return Known(
        first=first.params,
        final=final_model(recorded, path, first),
        frozen=first.frozen,
        roster=own,
        identities=identities,
        charges=charges,
    )
