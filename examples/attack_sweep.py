"""How strong an attack does each rule bear? A sweep of simulations as a table, and its worst case.

python examples/attack_sweep.py
"""

from __future__ import annotations

import securefl

RULES: dict[str, dict[str, object]] = {
    "mean": {"type": "mean"},
    "trimmed mean": {"type": "trimmed-mean", "trim": 1},
    "median": {"type": "median"},
}
FACTORS = (-1, -10)
"""What the liar multiplies its update by."""


def accuracy(rule: dict[str, object], factor: int) -> float:
    """Test accuracy of the quickstart after three rounds, with one liar and this rule."""
    scenario = securefl.load(
        "quickstart",
        {
            "stop.rounds": 3,
            "expect": [],
            "aggregation": {"rule": rule, "byzantine": 0, "claim": "none"},
            "behaviours": [{"kind": "scale", "factor": factor, "parties": ["p07"]}],
        },
    )
    return securefl.simulate(scenario, out=None).accuracy


def main() -> None:
    """Print a row for each rule."""
    print(f"{'rule':>14}" + "".join(f"{f'x {factor}':>8}" for factor in FACTORS))
    for name, rule in RULES.items():
        print(f"{name:>14}" + "".join(f"{accuracy(rule, factor):8.3f}" for factor in FACTORS))


if __name__ == "__main__":
    main()
