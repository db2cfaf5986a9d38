"""The ``[model]`` table: the model that is trained."""

from typing import ClassVar, Literal

from securefl.scenario.parts import Part

Activation = Literal["relu", "elu", "tanh"]


class Model(Part, tag_field="type", frozen=True, kw_only=True):
    """A model; a subclass is one kind with its parameters.

    Those of securefl are in :mod:`securefl.training.models.parts`, a file each. A table is read
    where there is no torch, so ``build`` imports it.
    """

    homes: ClassVar[tuple[str, ...]] = ("securefl.training.models.parts",)
    usual: ClassVar[str] = "mlp"
    required: ClassVar[tuple[str, ...]] = ("build",)
    reads: ClassVar[Literal["numbers", "text", "both"]] = "numbers"
    """Samples f32 ``(batch, *input_shape)`` with a label each, or tokens i64 ``(batch, length)`` with the
    next one at each position."""
    flat: ClassVar[bool] = False
    """Whether its first layer is dense, on all values of a sample."""
    by_sites: ClassVar[bool] = False
    """Whether it is named arrays only: then sites train and test it, and nobody else can."""
    by_columns: ClassVar[bool] = False
    """Whether sites look at their data only, and train nothing."""
    class_biases: ClassVar[bool] = False
    """Whether its last parameters are one bias per class."""

    @property
    def first_file(self) -> str:
        """Path of the file that the first parameters are read from; empty for a model that draws them."""
        return ""

    @property
    def draws(self) -> bool:
        """Whether training draws from torch's global generator, which threads would share."""
        return self.is_own

    def build(self, input_shape: tuple[int, ...], classes: int) -> object:
        """The ``torch.nn.Module`` on the CPU, its parameters drawn by torch's global generator.

        It turns samples into class scores ``(batch, classes)``, tokens into ``(batch, classes, length)``.

        Args:
            input_shape: of one sample.
            classes: number of scores.

        Raises:
            ConfigError: it does not fit such samples, naming a field of the table.
        """
        raise NotImplementedError

    def vectorised_widths(self, input_shape: tuple[int, ...], classes: int) -> tuple[int, ...] | None:
        """Inputs, hidden widths and classes of a dense model with ReLU; None for one without such a form."""
        del input_shape, classes
        return None
