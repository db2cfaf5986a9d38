"""Multilayer perceptron."""

import math
from typing import Annotated

from msgspec import Meta

from securefl import scenario


class Mlp(scenario.Model, tag="mlp", frozen=True, kw_only=True):
    """Fully connected layers. Only ``relu`` without dropout is vectorised in simulations."""

    class_biases = True
    flat = True
    hidden: tuple[scenario.Positive, ...] = (64,)
    """Widths of the hidden layers. ``[32]`` with ``elu`` is the network of Xiang et al. 2023, Table 8: d =
    25,450 on 784 pixels."""
    activation: scenario.Activation = "relu"
    """Function between layers."""
    dropout: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    """Share of each hidden layer's outputs that training drops at random."""

    @property
    def draws(self) -> bool:
        return self.dropout > 0

    def build(self, input_shape: tuple[int, ...], classes: int) -> object:
        from securefl.training.models.layers import dense_network

        return dense_network(input_shape, self.hidden, classes, self.activation, self.dropout)

    def vectorised_widths(self, input_shape: tuple[int, ...], classes: int) -> tuple[int, ...] | None:
        plain = self.activation == "relu" and not self.dropout
        return (math.prod(input_shape), *self.hidden, classes) if plain else None
