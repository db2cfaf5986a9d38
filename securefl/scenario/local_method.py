"""The ``training.method`` table: what local training changes in plain SGD.

The base class holds what every method states; each is a file in
:mod:`securefl.training.local_methods.parts`, with formula and source.
"""

from __future__ import annotations

from typing import Any, ClassVar

from securefl.scenario.parts import Part

Tensor = Any
"""A ``torch.Tensor``; tables are read where there is no torch."""


class LocalMethod(Part, tag_field="type", frozen=True, kw_only=True):
    """A correction of each local gradient; a subclass is one method with its parameters."""

    homes: ClassVar[tuple[str, ...]] = ("securefl.training.local_methods.parts",)
    usual: ClassVar[str] = "sgd"
    implied: ClassVar[bool] = True
    required: ClassVar[tuple[str, ...]] = ("correct",)
    controls: ClassVar[bool] = False
    """Whether control variates travel beside the parameters, as many numbers again."""

    @property
    def plain(self) -> bool:
        """Whether it leaves gradients as they are."""
        return False

    def correct(self, slope: Tensor, weight: Tensor, begun: Tensor, shift: Tensor | None) -> Tensor:
        """The gradient to descend along, in place of ``slope``; nothing that is given may be changed.

        Args:
            slope: of the loss of a batch.
            weight: as it is.
            begun: the weight that the round's model has.
            shift: the server's control variate less the party's own; None without ``controls``.
        """
        raise NotImplementedError

    def reported(self, control: Tensor, own: Tensor) -> Tensor:
        """With ``controls``: what the party returns for the server's control variate.

        Args:
            control: the server's, as it came.
            own: the party's new one: the mean of its gradients in this training, uncorrected.
        """
        del control
        return own
