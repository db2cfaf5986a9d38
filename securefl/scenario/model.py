"""The ``[model]`` table."""

from typing import ClassVar, Literal

from securefl.scenario.parts import Part

Activation = Literal["relu", "elu", "tanh"]


class Model(Part, tag_field="type", frozen=True, kw_only=True):
    """Base of models. A subclass is one kind of model with its parameters.

    ``build`` must import torch itself: processes without torch also read tables.

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
    """Input: samples f32 ``(batch, *input_shape)`` with a label each, or tokens i64 ``(batch, length)`` whose
    labels are the next tokens.
    """
    flat: ClassVar[bool] = False
    """True if the first layer is dense, on all values."""
    by_sites: ClassVar[bool] = False
    """True if the model is named arrays, which only sites train and test."""
    by_columns: ClassVar[bool] = False
    """True if sites compute statistics of their data and train nothing."""
    class_biases: ClassVar[bool] = False
    """True if the last parameters are one bias per class."""

    @property
    def first_file(self) -> str:
        """Path of the initial parameters; empty if they are drawn."""
        return ""

    @property
    def draws(self) -> bool:
        """True if training draws from torch's global generator, which threads would share."""
        return self.is_own

    def build(self, input_shape: tuple[int, ...], classes: int) -> object:
        """Return the ``torch.nn.Module`` on the CPU, drawn by torch's global generator.

        It maps samples ``(batch, *input_shape)`` to scores ``(batch, classes)``, tokens to ``(batch, classes,
        length)``.

        Raises:
            ConfigError: it does not fit such samples; the error names a field of the table.
        """
        raise NotImplementedError

    def vectorised_widths(self, input_shape: tuple[int, ...], classes: int) -> tuple[int, ...] | None:
        """Return inputs, hidden widths and classes of a dense ReLU model; None for another model."""
        del input_shape, classes
        return None
