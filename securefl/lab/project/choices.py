"""Choices of a new project."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from securefl.base.errors import ConfigError
from securefl.base.ids import is_name
from securefl.methods.privacy import MAX_EPSILON, MIN_EPSILON

KINDS: Final[dict[str, str]] = {
    "torch": "your own torch code",
    "tables": "CSV or Parquet files, without code of your own",
    "flower": "a Flower app",
    "nvflare": "an NVFlare client script",
}
"""Kinds of training, with what a user has."""
_SITES: Final = {"torch": "train:Site", "tables": "", "flower": "app.client:app", "nvflare": "train.py"}
_FIRST: Final = {"torch": "train:Site", "tables": "", "flower": "app.task:Net", "nvflare": "train:Net"}
_PARAMETERS: Final = {"tables": (4 + 1) * 2}
_PARAMETERS_OF_NET: Final = (30 + 1) * 8 + (8 + 1)
_MOST_SITES: Final = 200
"""Sites whose stand-in data have three samples each at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """Answers to the four questions, and the project's name."""

    name: str
    kind: str
    sites: int = 5
    active: bool = False
    """True if the server is not trusted to follow the protocol."""
    epsilon: float | None = None
    """Differential privacy of each site; None without."""

    def __post_init__(self) -> None:
        if not is_name(self.name):
            known = "take 1 to 32 of a-z, 0-9, _ and -, the first a letter or a digit"
            raise ConfigError("FOLDER", f"{self.name!r} is not a name for a project", known)
        if self.kind not in KINDS:
            raise ConfigError("--kind", f"{self.kind!r} is unknown", f"choose from {', '.join(KINDS)}")
        if not 3 <= self.sites <= _MOST_SITES:
            raise ConfigError(
                "--sites", f"is {self.sites}", f"take 3 to {_MOST_SITES}; edit federation.toml for more"
            )
        if self.epsilon is not None and not MIN_EPSILON <= self.epsilon <= MAX_EPSILON:
            remedy = f"take {MIN_EPSILON:g} to {MAX_EPSILON:g}, or none"
            raise ConfigError("--epsilon", f"is {self.epsilon:g}", remedy)

    @property
    def site(self) -> str:
        """Value of ``--site``; empty if the built-in training is used."""
        return _SITES[self.kind]

    @property
    def first(self) -> str:
        """Maker of the first weights; empty if the built-in training is used."""
        return _FIRST[self.kind]

    @property
    def parameters(self) -> int:
        """Number of parameters of the template's model."""
        return _PARAMETERS.get(self.kind, _PARAMETERS_OF_NET)

    @property
    def library(self) -> str:
        """Package of another framework that its sites need, or empty."""
        return {"flower": "flwr", "nvflare": "nvflare"}.get(self.kind, "")
