"""The ``[model]`` table: the model that is trained."""

from typing import ClassVar, Literal

from securefl.scenario.parts import Part

Activation = Literal["relu", "elu", "tanh"]


class Model(Part, tag_field="type", frozen=True, kw_only=True):
    """Base of models. A subclass is one kind of model with its parameters; ``build`` returns the module.

    ``build`` must import torch itself, since processes without torch also read tables.

    >>> import securefl
    >>> class Linear(securefl.Model, frozen=True, kw_only=True):
    ...     def build(self, input_shape, classes):
    ...         from math import prod
    ...         from torch import nn
    ...         return nn.Sequential(nn.Flatten(), nn.Linear(prod(input_shape), classes))
    >>> Linear().build((1, 8, 8), 10)[1].weight.shape
    torch.Size([10, 64])
    """

    homes: ClassVar[tuple[str, ...]] = ("securefl.training.models.parts",)
    usual: ClassVar[str] = "mlp"
    required: ClassVar[tuple[str, ...]] = ("build",)
    reads: ClassVar[Literal["numbers", "text", "both"]] = "numbers"
    """Input of the model: samples f32 ``(batch, *input_shape)`` with a label each, or tokens i64 ``(batch,
    length)`` with the next token as label at each position."""
    flat: ClassVar[bool] = False
    """True if the first layer is dense, on all values of a sample."""
    by_sites: ClassVar[bool] = False
    """True if the model is named arrays only, which sites alone train and test."""
    by_columns: ClassVar[bool] = False
    """True if sites compute statistics of their data only and train nothing."""
    class_biases: ClassVar[bool] = False
    """True if the last parameters are one bias per class."""

    @property
    def first_file(self) -> str:
        """Path of the file with the initial parameters; empty if the model draws them."""
        return ""

    @property
    def draws(self) -> bool:
        """True if training draws from torch's global generator, which threads would share."""
        return self.is_own

    def build(self, input_shape: tuple[int, ...], classes: int) -> object:
        """Return the ``torch.nn.Module`` on the CPU, its parameters drawn by torch's global generator.

        The module maps samples ``(batch, *input_shape)`` to class scores ``(batch, classes)``, and tokens to
        ``(batch, classes, length)``.

        Args:
            input_shape: shape of one sample.
            classes: number of scores.

        Raises:
            ConfigError: the model does not fit such samples; the error names a field of the table.
        """
        raise NotImplementedError

    def vectorised_widths(self, input_shape: tuple[int, ...], classes: int) -> tuple[int, ...] | None:
        """Return inputs, hidden widths and classes of a dense ReLU model; None for other models."""
        del input_shape, classes
        return None
