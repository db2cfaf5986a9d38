"""``npz:PATH``: a numpy archive of ``x_train``, ``y_train``, ``x_test``, ``y_test``; ``classes``."""

from functools import cached_property
from pathlib import Path

from securefl import scenario
from securefl.base.errors import ConfigError
from securefl.training.data import npz
from securefl.training.data.source import Half, Labelled, SampleSource


class NpzFile(SampleSource):
    """One archive. A party needs no test half, the server no training half."""

    divided = True

    def __init__(self, path: Path) -> None:
        self.path, self.name, self.title = path, str(path), path.stem

    @cached_property
    def prepared(self) -> Path | None:  # type: ignore[override]
        """The file, if it has ``x`` and ``y`` in place of halves."""
        names = npz.names_in(self.path)
        halves = sorted(names & {"x_train", "y_train", "x_test", "y_test"})
        if "x" in names and halves:
            reason = f"holds x, one party's prepared samples, and {', '.join(halves)}"
            raise ConfigError(self.name, reason, "keep one of them (docs/data.md)")
        return self.path if "x" in names else None

    def read(self, half: Half) -> Labelled:
        """Read a half of the archive."""
        x, y = f"x_{half}", f"y_{half}"
        has_classes = "classes" in npz.names_in(self.path)
        arrays = npz.read_npz(self.path, (x, y, "classes") if has_classes else (x, y))
        classes = None
        if has_classes:
            stated, where = arrays["classes"], f"{self.path}[classes]"
            if stated.shape != () or stated.dtype.kind not in "iu":
                raise ConfigError(
                    where,
                    f"has dtype {stated.dtype} and shape {stated.shape}",
                    "one integer, as in classes=10",
                )
            classes = int(stated)
            if not 2 <= classes <= npz.MAX_CLASSES:
                raise ConfigError(
                    where, f"is {classes}, must be in [2, {npz.MAX_CLASSES}]", "store the number of classes"
                )
        return Labelled(arrays[x], arrays[y], f"{self.path}[{x}]", f"{self.path}[{y}]", classes)


def source(place: Path, _config: scenario.Data) -> NpzFile:
    """Return the source of ``npz:place``."""
    return NpzFile(place)
