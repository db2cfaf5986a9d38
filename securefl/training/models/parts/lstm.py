"""LSTM for next characters."""

from securefl import scenario


class Lstm(scenario.Model, tag="lstm", frozen=True, kw_only=True):
    """Next character: an embedding, ``layers`` LSTM layers, one dense layer at every position."""

    reads = "text"
    embedding: scenario.Positive = 8
    """Width of the embedding."""
    hidden: scenario.Positive = 64
    """Width of each LSTM layer."""
    layers: scenario.Positive = 2
    """Number of LSTM layers."""

    def build(self, input_shape: tuple[int, ...], classes: int) -> object:
        from securefl.training.models.layers import NextCharacter

        return NextCharacter(classes, self.embedding, self.hidden, self.layers)
