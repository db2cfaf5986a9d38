"""Locations of a study's data sets."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from securefl.base.errors import ConfigError
from securefl.lab.experiments import experiment


@dataclass(frozen=True, slots=True)
class Source:
    """Data set with its files."""

    dataset: experiment.StudyDataset
    path: Path | None = None
    """File or folder of a data set with a scheme."""
    auxiliary: str = ""
    instead: str = ""
    """Title of the set that ``--aux`` substitutes for the item's own."""

    @property
    def quoted(self) -> str:
        """Value of ``data.set`` in an override."""
        dataset = self.dataset
        return json.dumps(f"{dataset.scheme}{self.path}" if dataset.scheme else dataset.name)


def asked_for(wanted: str, known: Sequence[experiment.StudyDataset], data_dir: Path | None) -> Source:
    """Return the data set that ``--dataset`` names: a name, or scheme and path (``npz:/data/usps.npz``).

    Raises:
        ConfigError: no such data set, or its files are missing.
    """
    for dataset in known:
        scheme = dataset.scheme
        if scheme and wanted.startswith(scheme):
            path = Path(wanted.removeprefix(scheme))
            if not path.exists():
                raise ConfigError(f"--dataset {wanted}", "no such file or folder", dataset.remedy)
            return Source(dataset, path.absolute())
        if wanted == dataset.name:
            found = _in(dataset, data_dir)
            if found is None:
                raise ConfigError(f"--dataset {wanted}", *_absent(dataset, data_dir))
            return found
    names = [one.name for one in known] + [f"{one.scheme}PATH" for one in known if one.scheme]
    raise ConfigError("--dataset", f"there is no data set {wanted!r} here", f"give one of {', '.join(names)}")


def present(
    known: Sequence[experiment.StudyDataset], data_dir: Path | None
) -> tuple[list[Source], list[str]]:
    """Return the data sets in the data directory, and a line for each missing one.

    Raises:
        ConfigError: all are missing.
    """
    found = [_in(dataset, data_dir) for dataset in known]
    lacking = [
        f"{dataset.name}: {reason}" + (f" ({remedy})" if remedy else "")
        for dataset, source in zip(known, found, strict=True)
        if source is None
        for reason, remedy in [_absent(dataset, data_dir)]
    ]
    there = [source for source in found if source is not None]
    if not there:
        if data_dir is None:
            verb = "is" if len(known) == 1 else "are"
            remedy = "name the folder that holds one of them" if len(known) > 1 else "name its folder"
            raise ConfigError("--data-dir", f"is missing, but {_names(known)} {verb} read from files", remedy)
        raise ConfigError(
            "--data-dir", f"{data_dir} does not hold {_names(known, ' or ')}", "; ".join(lacking)
        )
    return there, lacking


def with_auxiliary(
    source: Source, needed: experiment.Auxiliary | None, data_dir: Path | None, given: str = ""
) -> Source:
    """Return the source with the further data set that an item needs, if any.

    ``given`` (``--aux``) replaces it: a name, or scheme and path.

    Raises:
        ConfigError: it is missing.
    """
    if needed is None:
        return source
    if given:
        return _with_given(source, given)
    if data_dir is None:
        raise ConfigError(
            "--data-dir",
            f"is missing, but {needed.place} is read from files",
            "name the folder that holds it",
        )
    path = (data_dir / needed.place).absolute()
    if not path.exists():
        raise ConfigError("--data-dir", f"there is no {needed.place} in {data_dir}", needed.remedy)
    return replace(source, auxiliary=json.dumps(f"{needed.scheme}{path}"))


def _with_given(source: Source, given: str) -> Source:
    scheme, colon, place = given.partition(":")
    if not colon:
        return replace(source, auxiliary=json.dumps(given), instead=given)
    if not Path(place).exists():
        raise ConfigError(
            f"--aux {given}", "no such file or folder", "give a data set's name, npz:FILE or folder:DIR"
        )
    path = Path(place).absolute()
    return replace(source, auxiliary=json.dumps(f"{scheme}:{path}"), instead=path.name)


def nowhere(dataset: experiment.StudyDataset, needed: experiment.Auxiliary | None) -> Source:
    """Return the data set at a placeholder path, for its scenarios only."""
    return Source(dataset, Path("-"), json.dumps(f"{needed.scheme}--") if needed else "")


def _in(dataset: experiment.StudyDataset, data_dir: Path | None) -> Source | None:
    if not dataset.place:
        return Source(dataset)
    if data_dir is None or not (data_dir / dataset.place).exists():
        return None
    return Source(dataset, (data_dir / dataset.place).absolute())


def _absent(dataset: experiment.StudyDataset, data_dir: Path | None) -> tuple[str, str]:
    if data_dir is None:
        other = f", or the data by --dataset {dataset.scheme}PATH" if dataset.scheme else ""
        return "is read from files", f"name their folder by --data-dir{other}"
    return f"there is no {dataset.place} in {data_dir}", dataset.remedy


def _names(known: Sequence[experiment.StudyDataset], between: str = ", ") -> str:
    return between.join(one.name for one in known)
