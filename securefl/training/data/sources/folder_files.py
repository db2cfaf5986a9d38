"""``folder:DIR``: one folder of pictures per class."""

from pathlib import Path

from securefl import scenario
from securefl.training.data.image_folder import pictures_in
from securefl.training.data.source import Half, Labelled, SampleSource


class PictureFolder(SampleSource):
    """Pictures u8 ``(n, channels, height, width)``; the folders' names are the classes."""

    noun = "pictures"
    divided = False

    def __init__(self, path: Path, config: scenario.Data) -> None:
        self.path, self.config = path, config
        self.name, self.title = str(path), path.resolve().name or "folder"

    def read(self, _half: Half) -> Labelled:
        """Read all pictures."""
        found = pictures_in(self.path, self.config.images, self.config.classes)
        return Labelled(found.x, found.y, self.name, self.name, found.classes)


def source(place: Path, config: scenario.Data) -> PictureFolder:
    """Return the source of ``folder:place``."""
    return PictureFolder(place, config)
