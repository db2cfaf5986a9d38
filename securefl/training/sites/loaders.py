"""Samples that a loader gives in an epoch: its dataset's, or fewer by its sampler and ``drop_last``."""

from __future__ import annotations

from collections.abc import Sized

from securefl.base.errors import ConfigError


def samples_of(loader: object, stated: int | None) -> int:
    """Return how many samples a site trains on; they are its weight.

    Args:
        loader: of the site; None where it trains by itself.
        stated: by its owner; None to count.

    Raises:
        ConfigError: nothing is stated and the loader does not tell, or more are stated than it gives.
    """
    given = _given_by(loader)
    if stated is None:
        if given is None:
            raise ConfigError(
                "samples", "the loader does not tell how many samples it gives", "give samples="
            )
        return given
    if given is not None and stated > given:
        reason = f"{stated:,} are stated, and the loader gives {given:,}"
        raise ConfigError("samples", reason, "leave samples= out")
    return stated


def _given_by(loader: object) -> int | None:
    """Return the samples that a loader gives in an epoch, each counted once; None where it does not tell."""
    dataset = getattr(loader, "dataset", None)
    if not isinstance(dataset, Sized):
        return None
    batches = getattr(loader, "batch_sampler", None)
    # A batch sampler of one's own says how many batches it gives, and not how large they are.
    inner = batches if batches is not None else loader
    sampler = getattr(inner, "sampler", None)
    if sampler is None:
        return len(dataset) if batches is None else None
    if not isinstance(sampler, Sized):
        return None
    drawn, size = len(sampler), getattr(inner, "batch_size", None)
    if getattr(inner, "drop_last", False) and isinstance(size, int) and drawn >= size:
        drawn -= drawn % size
    # Drawn with replacement, samples come again: they are no more than there are.
    return min(drawn, len(dataset))
