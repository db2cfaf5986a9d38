"""Softmax regression."""

import math

from securefl import scenario


class Softmax(scenario.Model, tag="softmax", frozen=True, kw_only=True):
    """Softmax regression."""

    class_biases = True
    flat = True

    def build(self, input_shape: tuple[int, ...], classes: int) -> object:
        from securefl.training.models.layers import dense_network

        return dense_network(input_shape, (), classes)

    def vectorised_widths(self, input_shape: tuple[int, ...], classes: int) -> tuple[int, ...]:
        return math.prod(input_shape), classes
