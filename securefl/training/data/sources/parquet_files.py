"""``parquet:PATH``: like ``csv:PATH``, for Parquet files."""

from pathlib import Path

from securefl import scenario
from securefl.training.data import parquet_cells
from securefl.training.data.table_source import TableSource


def source(place: Path, config: scenario.Data) -> TableSource:
    """Return the source of ``parquet:place``."""
    return TableSource(place, config, parquet_cells.PARQUET, parquet_cells.read_parquet)
