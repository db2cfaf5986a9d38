"""``parquet:PATH``: as ``csv:PATH``, of Parquet files."""

from __future__ import annotations

from pathlib import Path

from securefl.scenario import Data
from securefl.training.data.parquet_cells import PARQUET, read_parquet
from securefl.training.data.table_source import TableSource


def source(place: Path, config: Data) -> TableSource:
    """See :mod:`securefl.training.data.sources`."""
    return TableSource(place, config, PARQUET, read_parquet)
