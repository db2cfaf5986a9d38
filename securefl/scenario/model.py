"""The ``[model]`` table: the model that is trained."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from securefl.scenario.section import Positive, Section

Activation = Literal["relu", "elu", "tanh"]


class Softmax(Section, tag="softmax", frozen=True, kw_only=True):
    """Softmax regression."""


class Mlp(Section, tag="mlp", frozen=True, kw_only=True):
    """Fully connected layers with ``activation`` between them."""

    hidden: tuple[Positive, ...] = (64,)
    activation: Activation = "relu"
    dropout: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    """Share of each hidden layer's outputs that are left out at random in training."""


class Cnn(Section, tag="cnn", frozen=True, kw_only=True):
    """Two 5x5 convolutions with max-pooling, then two dense layers."""

    channels: tuple[Positive, ...] = (16, 32)
    dense: Positive = 64


class GroupNormCnn(Section, tag="group-norm-cnn", frozen=True, kw_only=True):
    """Convolutions, each with group normalisation, a pool to ``pool`` x ``pool``, two dense layers.

    Group normalisation goes by one sample at a time, so that each has a gradient of its own. It has no
    parameters here. The defaults are the network of Xiang et al. 2023, Table 7.
    """

    channels: tuple[Positive, ...] = (16, 16, 16)
    """One number per convolution."""
    kernel: Positive = 5
    groups: Positive = 4
    pool: Positive = 4
    dense: Positive = 32
    activation: Activation = "elu"


class ResidualCnn(Section, tag="residual-cnn", frozen=True, kw_only=True):
    """3x3 convolutions with group normalisation, in blocks of two that are added to their input.

    The defaults are the network of Xiang et al. 2023 for Colorectal.
    """

    channels: Positive = 16
    blocks: Positive = 7
    groups: Positive = 4
    dense: Positive = 32
    activation: Activation = "elu"


class Lstm(Section, tag="lstm", frozen=True, kw_only=True):
    """Next character: an embedding, ``layers`` LSTM layers, one dense layer at every position."""

    embedding: Positive = 8
    hidden: Positive = 64
    layers: Positive = 2


class CustomModel(Section, tag="custom", frozen=True, kw_only=True):
    """Your own: ``factory`` is ``"module:function"``: (input_shape, classes) to torch Module."""

    factory: Annotated[str, Meta(pattern=r"^[\w.]+:\w+$")]


Model = Softmax | Mlp | Cnn | GroupNormCnn | ResidualCnn | Lstm | CustomModel
