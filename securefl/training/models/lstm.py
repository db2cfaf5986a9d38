"""The next-character model: an embedding, LSTM layers, one dense layer."""

from __future__ import annotations

import torch
from torch import nn

from securefl.scenario import Lstm


class NextCharacter(nn.Module):
    """Tokens i64 ``(batch, length)`` to the scores of the next one at each position.

    The dense layer is the same at every position, and each sequence begins with a state of zeros. SHARE
    (section 6.2) has two LSTM layers, as McMahan et al. 2017 (section 3), whose layers have 256 units.
    """

    def __init__(self, config: Lstm, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(classes, config.embedding)
        self.lstm = nn.LSTM(config.embedding, config.hidden, config.layers, batch_first=True)
        self.dense = nn.Linear(config.hidden, classes)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Scores ``(batch, classes, length)``: classes second, as losses of torch expect them."""
        states, _ = self.lstm(self.embedding(tokens))
        scores: torch.Tensor = self.dense(states)
        return scores.transpose(1, 2)
