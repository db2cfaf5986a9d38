"""Inputs of a verification besides transcripts."""

from collections.abc import Sequence
from pathlib import Path

from securefl.base import crypto
from securefl.base.errors import ConfigError
from securefl.lab.audit.chain import Known
from securefl.lab.audit.kept_messages import charges_in
from securefl.lab.audit.recorded import Recorded
from securefl.runtime import report


def known_of(
    recorded: Recorded,
    path: Path,
    data_dir: Path | None = None,
    roster: Path | None = None,
    keys: Sequence[Path] = (),
) -> Known:
    """Load models, roster, keys and evidence for a verification.

    Args:
        recorded: the run.
        path: its directory.
        data_dir: folder of data sets, which determine the model's size.
        roster: file; None for the roster of the transcripts.
        keys: private keys of parties whose proofs are recomputed.

    Raises:
        ConfigError: a bad roster or key, a damaged model or evidence file, or the first model's file is
            neither in the directory nor in its place.
    """
    own = None if roster is None else crypto.read_roster(roster)
    identities = {one.name: one for one in map(crypto.read_identity, keys)}
    for name in identities:
        if name not in recorded.parties:
            raise ConfigError(
                "--key", f"is of {name}, which is not a party of this run", "give a party's key"
            )
    charges = charges_in(path)
    # An audit of a run without verified rounds needs no torch.
    from securefl.lab.audit.models import final_model, first_file, first_model  # noqa: PLC0415 - imports torch

    file = first_file(recorded, path)
    try:
        first = first_model(recorded, data_dir, file)
    except ConfigError as error:
        frozen = recorded.frozen
        return Known(unknown=str(error), frozen=frozen, roster=own, identities=identities, charges=charges)
    return Known(
        first=first.params,
        doubt=_doubt(recorded, file),
        final=final_model(recorded, path, first),
        frozen=first.frozen,
        roster=own,
        identities=identities,
        charges=charges,
    )


def _doubt(recorded: Recorded, file: Path | None) -> str:
    """Return why a first model made here may be wrong; empty if it cannot be."""
    if file is not None:
        model = recorded.scenario.model
        return (
            ""
            if getattr(model, "sha256", "") or recorded.model_files
            else f"{file} may differ from the file of the run"
        )
    if recorded.scenario.model.is_own:
        return "the code of the model may have changed since the run"
    here = report.versions()
    if any(dict(stated) == dict(here) for stated in recorded.software):
        return ""
    listed_here = ", ".join(f"{name} {version}" for name, version in here.items())
    return f"no process of the run states that it used the software of this machine ({listed_here})"
