"""Formatting of numbers in header lines: counts, percentages, plurals."""

from __future__ import annotations


def count(number: int, noun: str) -> str:
    """``number`` of what ``noun`` names, with an s but for one."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def percent(probability: float) -> str:
    """Three digits near 0 and near 1, where the difference matters."""
    if 0 < probability < 1e-4:
        return f"{probability:.1e}"
    if 1 - 1e-4 < probability < 1:
        return f"1 - {1 - probability:.1e}"
    return f"{100 * probability:.3g} %"
