"""Multilayer perceptron."""

import math
from typing import Annotated

from msgspec import Meta

from securefl import scenario


class Mlp(scenario.Model, tag="mlp", frozen=True, kw_only=True):
    """Fully connected layers with ``activation`` between them."""

    class_biases = True
    flat = True
    hidden: tuple[scenario.Positive, ...] = (64,)
    activation: scenario.Activation = "relu"
    dropout: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    """Share of each hidden layer's outputs that are left out at random in training."""

    @property
    def draws(self) -> bool:
        return self.dropout > 0

    def build(self, input_shape: tuple[int, ...], classes: int) -> object:
        from securefl.training.models.layers import dense_network

        return dense_network(input_shape, self.hidden, classes, self.activation, self.dropout)

    def vectorised_widths(self, input_shape: tuple[int, ...], classes: int) -> tuple[int, ...] | None:
        plain = self.activation == "relu" and not self.dropout
        return (math.prod(input_shape), *self.hidden, classes) if plain else None
