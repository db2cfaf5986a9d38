"""What a process needs beyond this package to compute the scenario's sums."""

from __future__ import annotations

from securefl.config.scenario import Scenario
from securefl.secure_sum.crypten.library import check_installed, device_of
from securefl.secure_sum.crypten.ports import Engine


def check_sums(scenario: Scenario) -> None:
    """Refuse a scenario whose sums this machine cannot compute, before any process starts.

    Raises:
        ConfigError: CrypTen is missing or of another version; a GPU is asked for, and there is none.
    """
    if scenario.secure_sum.kind != "crypten":
        return
    check_installed()
    if scenario.secure_sum.device == "cuda":
        device_of("cuda")


def engine_of(scenario: Scenario) -> Engine | None:
    """Return what computes CrypTen sums; None for scenarios without.

    Raises:
        ConfigError: as :func:`check_sums`.
    """
    if scenario.secure_sum.kind != "crypten":
        return None
    check_sums(scenario)
    from securefl.secure_sum.crypten.engine import CryptenEngine  # noqa: PLC0415 - imports torch and CrypTen

    return CryptenEngine(scenario.secure_sum.device)


def preload_of(scenario: Scenario) -> tuple[str, ...]:
    """Return what the fork server of a run imports besides :data:`securefl.runtime.children.PRELOAD`."""
    return ("securefl.secure_sum.crypten.preloaded",) if scenario.secure_sum.kind == "crypten" else ()
