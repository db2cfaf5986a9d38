"""Next characters by an LSTM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from securefl.scenario import Model, Positive

if TYPE_CHECKING:
    from torch import nn


class Lstm(Model, tag="lstm", frozen=True, kw_only=True):
    """Next character: an embedding, ``layers`` LSTM layers, one dense layer at every position."""

    reads = "text"
    embedding: Positive = 8
    hidden: Positive = 64
    layers: Positive = 2

    def build(self, input_shape: tuple[int, ...], classes: int) -> nn.Module:
        from securefl.training.models.layers import NextCharacter

        return NextCharacter(self, classes)
