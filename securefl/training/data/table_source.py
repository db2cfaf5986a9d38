"""Tables as data sets; the scenario declares features and label."""

from collections.abc import Callable
from pathlib import Path

from securefl import scenario
from securefl.base.errors import ConfigError
from securefl.training.data import source, tables
from securefl.training.data.cells import Cells


class TableSource(source.SampleSource):
    """One undivided file, or a folder with a file for each half.

    ``endings`` are those of the two files' names; ``cells`` reads columns of a file.

    Raises:
        ConfigError: no table or no classes are declared.
    """

    standardised = True

    def __init__(
        self,
        place: Path,
        config: scenario.Data,
        endings: tuple[str, ...],
        cells: Callable[[Path, tuple[str, ...]], Cells],
    ) -> None:
        if config.table is None or config.classes is None:
            field = "data.classes" if config.table else "data.table"
            remedy = "declare label, features and classes (docs/data.md)"
            raise ConfigError(field, f"is missing, and {place} is a table file", remedy)
        self._place, self._endings, self._cells = place, endings, cells
        self._schema: scenario.TableSchema = config.table
        self._label = scenario.Column(name=config.table.label, categories=config.class_names)
        self.divided = place.is_dir()
        self.name, self.title = str(place), place.name.removesuffix(".gz").rpartition(".")[0] or place.name

    def read(self, half: source.Half) -> source.Labelled:
        """Read features and label."""
        table = self.table(half)
        if table.others:
            self.remarks += (f"columns left out: {', '.join(table.others)}",)
        if table.dropped:
            self.remarks += (f"dropped: {table.dropped:,} rows that lack a value",)
        path, features = table.source, [column.name for column in self._schema.features]
        y_name = f"{path}, column {self._label.name!r}"
        return source.Labelled(table.matrix(*features), table[self._label.name], path, y_name, None)

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the inputs: a column's name, with the word of a category."""
        return tuple(
            f"{column.name} = {word}" if word else column.name
            for column in self._schema.features
            for word in column.categories or ("",)
        )

    def table(self, half: source.Half) -> tables.DataTable:
        """Return the features and the label.

        Raises:
            ConfigError: as for :func:`securefl.training.data.tables.read_table`.
        """
        columns = (*self._schema.features, self._label)
        cells = self._cells(self._file(half), tuple(column.name for column in columns))
        return tables.table_of(cells, columns, self._schema.missing, self._schema.incomplete)

    def _file(self, half: source.Half) -> Path:
        if half == "all":
            return self._place
        names = [f"{half}{ending}" for ending in self._endings]
        there = [self._place / name for name in names if (self._place / name).exists()]
        if len(there) != 1:
            found = " and ".join(path.name for path in there)
            reason = f"holds {found}" if there else f"has no {names[0]}"
            raise ConfigError(self.name, reason, "name one file for train and one for test")
        return there[0]
