"""Initial parameters of users' sites."""

from typing import Annotated, ClassVar

from msgspec import Meta

from securefl import scenario


class SiteWeights(scenario.Model, tag="weights", frozen=True, kw_only=True):
    """Initial parameters from a safetensors file; each party's site trains them (docs/sites.md)."""

    reads = "both"
    by_sites: ClassVar[bool] = True
    file: Annotated[str, Meta(min_length=1)] = "initial.safetensors"
    """Path from the working directory; all processes have the same file."""
    sha256: Annotated[str, Meta(pattern="^([0-9a-f]{64})?$")] = ""
    """Digest of the file. A process with another file is refused at once; if empty, at the first hello."""

    frozen_sha256: Annotated[str, Meta(pattern="^([0-9a-f]{64})?$")] = ""
    """Digest of the parameters that sites have and do not train, such as the base under adapters. Empty:
    not compared."""

    averaged: tuple[Annotated[str, Meta(min_length=1)], ...] = ("*running_mean", "*running_var")
    """Name patterns of buffers that are sent; the server averages them with any optimiser."""

    @property
    def first_file(self) -> str:
        return self.file

    def build(self, input_shape: tuple[int, ...], classes: int) -> object:
        from securefl.training.models.tensors import read_tensors

        del input_shape, classes
        return read_tensors(self.file, self.sha256, self.averaged)
