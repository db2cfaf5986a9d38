"""Named arrays from a file: the start of what sites of your own train."""

from typing import Annotated, ClassVar

from msgspec import Meta

from securefl import scenario


class SiteWeights(scenario.Model, tag="weights", frozen=True, kw_only=True):
    """Initial parameters from a safetensors file; each party's site trains them (docs/sites.md)."""

    reads = "both"
    by_sites: ClassVar[bool] = True
    file: Annotated[str, Meta(min_length=1)] = "initial.safetensors"
    """From the working directory; everybody's holds the same."""
    sha256: Annotated[str, Meta(pattern="^([0-9a-f]{64})?$")] = ""
    """Of the file, to be told at once who has another; empty to learn it only from the first hello."""

    frozen_sha256: Annotated[str, Meta(pattern="^([0-9a-f]{64})?$")] = ""
    """Of the parameters that sites have and do not train, such as the base under adapters; empty: not
    compared."""

    averaged: tuple[Annotated[str, Meta(min_length=1)], ...] = ("*running_mean", "*running_var")
    """Patterns of the names of buffers that travel: the server averages them, whatever its optimiser."""

    @property
    def first_file(self) -> str:
        return self.file

    def build(self, input_shape: tuple[int, ...], classes: int) -> object:
        from securefl.training.models.tensors import read_tensors

        del input_shape, classes
        return read_tensors(self.file, self.sha256, self.averaged)
