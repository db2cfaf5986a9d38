"""``idx:DIR``: a folder with a user's pictures in the four files of MNIST."""

from pathlib import Path

from securefl import scenario
from securefl.base.errors import ConfigError
from securefl.training.data.idx import read_idx
from securefl.training.data.source import Half, Labelled, SampleSource

_STEMS = {"train": ("train",), "test": ("t10k", "test"), "all": ()}


class IdxFolder(SampleSource):
    """Pictures u8 ``(n, 1, height, width)``, and labels. A party needs no test half."""

    divided = True

    def __init__(self, folder: Path) -> None:
        self.folder, self.name, self.title = folder, str(folder), folder.resolve().name or "idx"

    def read(self, half: Half) -> Labelled:
        """Read the pictures and labels of a half."""
        if not self.folder.is_dir():
            raise ConfigError(self.name, "is not a folder", "name one with MNIST's four files (docs/data.md)")
        images, labels = self._file(half, "images", 3), self._file(half, "labels", 1)
        x, y = read_idx(images, 3)[:, None], read_idx(labels, 1)
        return Labelled(x, y, str(images), str(labels))

    def _file(self, half: Half, what: str, dimensions: int) -> Path:
        """Return the only file of this name, with a hyphen or a dot, packed or not."""
        stems = [f"{stem}-{what}" for stem in _STEMS[half]]
        names = [
            f"{stem}{dot}idx{dimensions}-ubyte{gz}" for stem in stems for dot in "-." for gz in ("", ".gz")
        ]
        there = [self.folder / name for name in names if (self.folder / name).exists()]
        if len(there) > 1:
            reason = f"holds {' and '.join(path.name for path in there)}"
            raise ConfigError(self.name, reason, "leave one of them there")
        if not there:
            raise ConfigError(self.name, f"lacks the file {names[0]}", "add it, packed as .gz or not")
        return there[0]


def source(place: Path, _config: scenario.Data) -> IdxFolder:
    """Return the source of ``idx:place``."""
    return IdxFolder(place)
