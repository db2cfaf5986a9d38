"""Refusal of scenarios by which an operator would let real machines attack or fail."""

from securefl.base.errors import ConfigError
from securefl.scenario import parse_table


def check_no_behaviours(scenario: str, source: str) -> None:
    """Refuse a scenario with attacks or faults, before it is loaded.

    Raises:
        ConfigError: the text has behaviours, or is not TOML.
    """
    if parse_table(scenario, source).get("behaviours"):
        raise ConfigError(
            f"{source}: behaviours",
            "are attacks and faults for simulations",
            "ask the operator to remove them",
        )
