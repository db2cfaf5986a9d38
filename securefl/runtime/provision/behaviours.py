"""Refusal of scenarios by which an operator would let real machines attack, fail or read other files."""

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


def check_kit_scenario(scenario: str, weights: str, source: str) -> None:
    """Refuse a kit's scenario with attacks or faults, or with first weights that are no file of the kit.

    Args:
        scenario: text of its file.
        weights: name of the kit's first weights; empty if it has none.
        source: of the scenario, for errors.

    Raises:
        ConfigError: it is refused, or is not TOML.
    """
    check_no_behaviours(scenario, source)
    model = parse_table(scenario, source).get("model")
    named = model.get("file", weights) if isinstance(model, dict) else weights
    if named != weights:
        raise ConfigError(
            f"{source}: model.file",
            f"is {str(named)[:60]!r}, which is no file of this kit",
            "ask the operator for an answer with these weights",
        )
