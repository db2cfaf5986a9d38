"""``csv:PATH``: a table that the scenario declares; or a folder of train.csv and test.csv."""

from pathlib import Path

from securefl import scenario
from securefl.training.data.cells import Cells, read_csv
from securefl.training.data.table_source import TableSource


def source(place: Path, config: scenario.Data) -> TableSource:
    """Return the source of ``csv:place``."""
    delimiter = config.table.delimiter if config.table else ","

    def read(path: Path, names: tuple[str, ...]) -> Cells:
        return read_csv(path, names, "\t" if delimiter == "tab" else delimiter)

    return TableSource(place, config, (".csv", ".csv.gz"), read)
