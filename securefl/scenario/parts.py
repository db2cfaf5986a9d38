"""Parts of a scenario that stand in one file each: rules, attacks, partitions, models.

A part is a table (its fields), the function it stands for, and what it needs and withstands. It is found by
the name in its ``type``: a file of that name in a package of its kind, or ``module:name`` for one's own. Only
the file that is named is imported.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final, TypeVar

import msgspec
from msgspec import inspect

from securefl.base.errors import ConfigError, RunAbortedError, SecureflError
from securefl.scenario.section import CheckedMeta, Section


class PartMeta(CheckedMeta):
    """Names a part by its tag; one's own, which has none, by ``module:name``."""

    def __new__(
        mcls: type[PartMeta],
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        tag: str | None = None,
        **settings: Any,
    ) -> PartMeta:
        """As for any struct."""
        full = tag or f"{namespace['__module__']}:{name}"
        return super().__new__(mcls, name, bases, namespace, tag=full, **settings)


class Part(Section, metaclass=PartMeta, frozen=True, kw_only=True):
    """Base of all kinds of parts."""

    homes: ClassVar[tuple[str, ...]] = ()
    """Where parts of this kind are: packages with one file each, or modules with several."""
    usual: ClassVar[str] = ""
    """The one that errors give as an example."""
    implied: ClassVar[bool] = False
    """Whether a table without a ``type`` is the usual one."""
    remedies: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """What an error advises if a field is missing, where the choices of its type do not say it."""
    required: ClassVar[tuple[str, ...]] = ()
    """Methods without which a part of this kind cannot be used."""

    @property
    def name(self) -> str:
        """What the scenario calls it, as in ``type = "krum"``."""
        return str(self.__struct_config__.tag)

    @property
    def is_own(self) -> bool:
        """Whether a user wrote it, so that what it gives is to be checked."""
        return ":" in self.name

    @contextmanager
    def blame_part(self) -> Iterator[None]:
        """Blame a part of one's own for whatever is raised meanwhile, in one line.

        Raises:
            RunAbortedError: it raised something.
        """
        try:
            yield
        except SecureflError:
            raise
        except Exception as error:
            if not self.is_own:
                raise
            raise RunAbortedError(f"{self.name} raised {type(error).__name__}: {error}") from error


P = TypeVar("P", bound=Part)
SCHEMES: Final = ("csv", "folder", "idx", "npz", "parquet")
"""Stand before the path of a data set, and name no module."""
OWN_NAME: Final = re.compile(r"[\w.]+:\w+")
"""``module:name``."""


def names(kind: type[Part]) -> tuple[str, ...]:
    """The names of all parts of a kind that come with securefl; of packages nothing but the list is read."""
    found: list[str] = []
    for home in kind.homes:
        module = importlib.import_module(home)
        if hasattr(module, "__path__"):
            found += [_name_of(info.name) for info in pkgutil.iter_modules(module.__path__)]
        else:
            found += [name for name in _tagged_parts(module, kind) if ":" not in name]
    return tuple(sorted(found))


def find(kind: type[P], name: str, at_hand: Mapping[str, type[Part]] = MappingProxyType({})) -> type[P]:
    """Return the part called ``name``: of securefl, or a user's as ``module:name``.

    Args:
        kind: base of the part.
        name: its ``type``.
        at_hand: classes of a user's parts by name (:func:`own_parts`), which are not imported.

    Raises:
        LookupError: there is none of that name.
        ConfigError: a module or a name in it that cannot be used; it names neither field nor table.
    """
    if ":" in name:
        return _own(kind, name, at_hand.get(name))
    for home in kind.homes:
        module = importlib.import_module(home)
        if hasattr(module, "__path__"):
            if name not in map(_name_of, (info.name for info in pkgutil.iter_modules(module.__path__))):
                continue
            module = importlib.import_module(f"{home}.{_file_of(name)}")
        part = _tagged_parts(module, kind).get(name)
        if part is not None:
            return part
    raise LookupError(name)


def is_kind(part: type[Part]) -> bool:
    """Whether it stands for all parts of its kind, and is none itself."""
    return "required" in vars(part)


def expand_node(node: inspect.Type) -> tuple[inspect.Type, ...]:
    """What a node of a schema stands for: all built-in parts, where a kind is declared."""
    kind = node.cls if isinstance(node, inspect.StructType) else None
    if kind is None or not issubclass(kind, Part) or not is_kind(kind):
        return (node,)
    return tuple(inspect.type_info(find(kind, name)) for name in names(kind))


def default_of(kind: type[P], name: str) -> P:
    """The part that a table has when it names none, with all defaults."""
    return find(kind, name)()


def own_parts_from(folder: Path) -> None:
    """Let modules of one's own be found in ``folder``, and in the current directory.

    Both come last in the search, so that no installed module is ever replaced by a file that lies there.
    Child processes search the same places. Where this library stands comes behind them: beside a folder of
    its name, as a clone's, they would otherwise import that one as a namespace package if it is installed
    as editable.
    """
    library = Path(__file__).parents[2]
    for place in (str(folder.resolve()), str(Path.cwd()), str(library)):
        if place not in sys.path:
            sys.path.append(place)


def load_own(name: str) -> Any:
    """What ``module:name`` names.

    Raises:
        ConfigError: no such module or name, or importing it failed; ``name`` stands for the field.
    """
    module_name, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except AttributeError as error:
        if module_name not in sys.modules:
            raise _not_imported(name, error) from error
        raise ConfigError(name, f"has no {attribute}", "name a class of this module") from error
    except (Exception, SystemExit) as error:  # whatever the user's module raises while it is imported
        raise _not_imported(name, error) from error


def own_name(made: object) -> str:
    """The ``module:name`` by which another process imports a class or a function.

    Raises:
        ConfigError: it has none: an instance, or what is in a function, in the main program or in a notebook.
    """
    module, name = getattr(made, "__module__", ""), getattr(made, "__qualname__", "")
    if module in {"", "__main__"} or getattr(sys.modules.get(module), name, None) is not made:
        said = name or type(made).__name__
        remedy = 'put it into a module and name it, as in "mysite:Site"'
        raise ConfigError("site", f"{said} cannot be imported by other processes", remedy)
    return f"{module}:{name}"


def own_parts(value: object) -> dict[str, type[Part]]:
    """Return the classes of the user's parts in a scenario, a table or a part, by name.

    They make a changed copy of the scenario, also if the name of a class cannot be imported (in a function),
    or another class has it by now (in a notebook).
    """
    found: dict[str, type[Part]] = {}
    if isinstance(value, Part) and ":" in value.name:
        found[value.name] = type(value)
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.asdict(value)
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    for one in inner:
        found |= own_parts(one)
    return found


def check_importable(scenario: Section) -> None:
    """Refuse a user's parts that the processes of a run cannot import.

    Raises:
        ConfigError: the class is in the main program, a notebook or a function, or another one has its name.
    """
    for name, part in own_parts(scenario).items():
        module, _, attribute = name.partition(":")
        if module == "__main__" or getattr(sys.modules.get(module), attribute, None) is not part:
            remedy = "put the class into a module and import it; simulations take it as it is"
            raise ConfigError(name, "cannot be imported by the processes of a run", remedy)


def own_sources(chosen: object) -> dict[str, bytes]:
    """The source files of all modules of one's own that a scenario names as ``module:name``.

    Args:
        chosen: fields of a scenario as built-in types (:func:`securefl.scenario.draws.chosen_fields`).
    """
    if isinstance(chosen, dict | list):
        inner = chosen.values() if isinstance(chosen, dict) else chosen
        return {module: source for one in inner for module, source in own_sources(one).items()}
    if not isinstance(chosen, str) or not OWN_NAME.fullmatch(chosen):
        return {}
    module = chosen.partition(":")[0]
    if module in SCHEMES:
        return {}
    try:
        found = find_spec(module)
        return {module: Path(found.origin).read_bytes()} if found and found.origin else {}
    except (ImportError, ValueError, OSError):  # a module that is refused later
        return {}


def _not_imported(name: str, error: BaseException) -> ConfigError:
    return ConfigError(
        name,
        f"cannot be imported: {type(error).__name__}: {error}",
        "put it beside the scenario file or into the current directory, install it, or set PYTHONPATH",
    )


def _own(kind: type[P], name: str, at_hand: type[Part] | None) -> type[P]:
    part = at_hand or load_own(name)
    if not (isinstance(part, type) and issubclass(part, kind)):
        raise ConfigError(
            name, f"is not a {kind.__name__}", f"write a subclass of {kind.__module__}.{kind.__name__}"
        )
    if part.__struct_config__.tag != name:
        raise ConfigError(name, f"has the type name {part.__struct_config__.tag}", "write that name")
    if is_kind(part):
        raise ConfigError(name, "is an abstract base class", "name one of its subclasses")
    lacking = [method for method in part.required if _is_missing(part, method)]
    if lacking:
        raise ConfigError(name, f"lacks {' and '.join(lacking)}", f"define {', '.join(lacking)}")
    return part


def _is_missing(part: type[Part], method: str) -> bool:
    """Whether it has the method only from the class that requires it."""
    requires = next(base for base in part.__mro__ if "required" in vars(base))
    return getattr(part, method, None) is getattr(requires, method, None)


def _tagged_parts(module: Any, kind: type[P]) -> dict[str, type[P]]:
    """The parts that are defined in a module, by name."""
    own = (
        one
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, kind) and one.__module__ == module.__name__
    )
    return {str(one.__struct_config__.tag): one for one in own}


def _file_of(name: str) -> str:
    return name.replace("+", "_plus").replace("-", "_")


def _name_of(file: str) -> str:
    return file.replace("_plus", "+").replace("_", "-")
