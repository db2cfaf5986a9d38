"""Parts of a scenario, one file each: rules, attacks, partitions, models.

A part's ``type`` names a file in a package of its kind, or ``module:name`` of a user; only that file is
imported.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final, TypeVar

import msgspec
from msgspec import inspect

from securefl.base.errors import ConfigError, RunAbortedError, SecureflError
from securefl.scenario.section import CheckedMeta, Section


class PartMeta(CheckedMeta):
    """Metaclass that names a part by its tag, or a user's part by ``module:name``."""

    def __new__(
        mcls: type[PartMeta],
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        tag: str | None = None,
        **settings: Any,
    ) -> PartMeta:
        """Create the class with its tag."""
        full = tag or f"{namespace['__module__']}:{name}"
        return super().__new__(mcls, name, bases, namespace, tag=full, **settings)


class Part(Section, metaclass=PartMeta, frozen=True, kw_only=True):
    """Base of all kinds of parts: a table, the function that it configures, its needs and guarantees."""

    homes: ClassVar[tuple[str, ...]] = ()
    """Packages with one part per file, or modules with several."""
    usual: ClassVar[str] = ""
    """Part that errors give as an example."""
    implied: ClassVar[bool] = False
    """True if a table without ``type`` is the usual one."""
    remedies: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Remedies for missing fields without choices."""
    required: ClassVar[tuple[str, ...]] = ()
    """Methods that a part must define."""

    @property
    def name(self) -> str:
        """Name in a scenario, as in ``type = "krum"``."""
        return str(self.__struct_config__.tag)

    @property
    def is_own(self) -> bool:
        """True if a user wrote the part; its results must be checked."""
        return ":" in self.name

    @contextmanager
    def blame_part(self) -> Iterator[None]:
        """Turn any exception of a user's part in the block into a RunAbortedError that names it."""
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
"""Schemes of a data set's path; they are not modules."""
OWN_NAME: Final = re.compile(r"[\w.]+:\w+")


def names(kind: type[Part]) -> tuple[str, ...]:
    """Return the names of all built-in parts of a kind, without importing files of packages."""
    found: list[str] = []
    for home in kind.homes:
        module = importlib.import_module(home)
        if hasattr(module, "__path__"):
            found += [_name_of(info.name) for info in pkgutil.iter_modules(module.__path__)]
        else:
            found += [name for name in _tagged_parts(module, kind) if ":" not in name]
    return tuple(sorted(found))


def find(kind: type[P], name: str, at_hand: Mapping[str, type[Part]] = MappingProxyType({})) -> type[P]:
    """Return the part called ``name``: built-in, or a user's ``module:name``.

    Classes in ``at_hand`` (:func:`own_parts`) are not imported.

    Raises:
        LookupError: no part has that name.
        ConfigError: a user's part cannot be used; the error names neither field nor table.
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
    """Return True if the class is the base of a kind."""
    return "required" in vars(part)


def expand_node(node: inspect.Type) -> tuple[inspect.Type, ...]:
    """Return the types that a node of a schema may be: all built-in parts of a declared kind."""
    kind = node.cls if isinstance(node, inspect.StructType) else None
    if kind is None or not issubclass(kind, Part) or not is_kind(kind):
        return (node,)
    return tuple(inspect.type_info(find(kind, name)) for name in names(kind))


def default_of(kind: type[P], name: str) -> P:
    """Return a part with all defaults."""
    return find(kind, name)()


_own_folders: list[str] = []
"""Folders of :func:`own_parts_from`, the latest first."""
_searched: list[str] = []
"""Entries of the module search path that :func:`own_parts_from` added."""


def own_parts_from(folder: Path) -> None:
    """Search modules in ``folder``, the current directory, folders of earlier calls and this library's.

    At the end of the search path, they replace no installed module. The library's folder is for editable
    installations: child processes beside a folder of its name would import that as a namespace package.
    """
    latest, library = str(folder.resolve()), str(Path(__file__).parents[2])
    _own_folders[:] = [latest, *(one for one in _own_folders if one != latest)]
    sys.path[:] = [one for one in sys.path if one not in _searched]
    places = dict.fromkeys((latest, str(Path.cwd()), *_own_folders, library))
    _searched[:] = [one for one in places if one not in sys.path]
    sys.path.extend(_searched)


def load_own(name: str) -> Any:
    """Return the object of ``module:name``.

    Raises:
        ConfigError: no such module or name, or its import failed; or the process has a module of that name,
            or one that it imports, from the folder of another scenario. It has ``name`` in place of the
            field.
    """
    module_name, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except AttributeError as error:
        if module_name not in sys.modules:
            raise _not_imported(name, error) from error
        raise ConfigError(name, f"has no {attribute}", "name a class of this module") from error
    except (Exception, SystemExit) as error:  # any exception of the user's module
        raise _not_imported(name, error) from error
    _check_of_latest(name)
    return found


def _check_of_latest(name: str) -> None:
    """Refuse modules from other folders that the latest folder, or the current directory, has as well."""
    searched = [*_own_folders[:1], str(Path.cwd())]
    others = {Path(one) for one in (*_own_folders, *searched)}
    importlib.invalidate_caches()
    for module_name, module in sorted(sys.modules.items()):
        loaded = getattr(module, "__spec__", None)
        # Built-in and frozen modules, such as time and site, have no place.
        if not isinstance(loaded, ModuleSpec) or not (
            loaded.has_location or loaded.submodule_search_locations
        ):
            continue
        if "." in module_name or _place_of(loaded).parent not in others:
            continue
        wanted = PathFinder.find_spec(module_name, searched)
        # A folder without code is no module of that name.
        if wanted is None or (wanted.origin is None) != (loaded.origin is None):
            continue
        place, wanted_place = _place_of(loaded), _place_of(wanted)
        if not _is_same(place, wanted_place):
            raise ConfigError(
                name,
                f"cannot be used: this process has the module {place} in place of {wanted_place}",
                "rename one of them, or use a process for each scenario",
            )


def _place_of(spec: ModuleSpec) -> Path:
    """Return the file of a module, or the folder of a package."""
    return Path(next(iter(spec.submodule_search_locations or ()), spec.origin or "")).resolve()


def _is_same(one: Path, other: Path) -> bool:
    """Return True for one folder or file, or files with the same text."""
    if one == other or not (one.is_file() and other.is_file()):
        return one == other
    return one.read_bytes() == other.read_bytes()


def own_name(made: object) -> str:
    """Return the ``module:name`` by which another process imports a class or a function.

    Raises:
        ConfigError: it has none: an instance, or defined in a function, main program or notebook.
    """
    module, name = getattr(made, "__module__", ""), getattr(made, "__qualname__", "")
    if module in {"", "__main__"} or getattr(sys.modules.get(module), name, None) is not made:
        given_name = name or type(made).__name__
        remedy = 'put it into a module and name it, as in "mysite:Site"'
        raise ConfigError("site", f"{given_name} cannot be imported by other processes", remedy)
    return f"{module}:{name}"


def own_parts(value: object) -> dict[str, type[Part]]:
    """Return the classes of users' parts in a scenario, table or part, by name.

    Some cannot be imported again: those in a function, or replaced in a notebook.
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
    """Check that the processes of a run can import a user's parts.

    Raises:
        ConfigError: a class is in the main program, a notebook or a function, or another class has its name.
    """
    for name, part in own_parts(scenario).items():
        module, _, attribute = name.partition(":")
        if module == "__main__" or getattr(sys.modules.get(module), attribute, None) is not part:
            remedy = "put the class into a module and import it; simulations take it as it is"
            raise ConfigError(name, "cannot be imported by the processes of a run", remedy)


def own_sources(chosen: object) -> dict[str, bytes]:
    """Return the source of users' modules that a scenario names as ``module:name``.

    ``chosen`` comes from :func:`securefl.scenario.draws.chosen_fields`.
    """
    found: dict[str, bytes] = {}
    for module in dict.fromkeys(name.partition(":")[0] for name in own_names(chosen)):
        with suppress(ImportError, ValueError, OSError):  # refused later
            spec = find_spec(module)
            if spec and spec.origin:
                found[module] = Path(spec.origin).read_bytes()
    return found


def own_names(table: object, field: str = "") -> Iterator[str]:
    """Yield each ``module:name`` of a scenario as read or as chosen, without importing it.

    Any text of this form counts, except a description and a data set's scheme with its path.
    """
    if isinstance(table, Mapping):
        for name, value in table.items():
            yield from own_names(value, name)
    elif isinstance(table, list):
        for value in table:
            yield from own_names(value, field)
    elif isinstance(table, str) and OWN_NAME.fullmatch(table) and field != "description":
        has_path = field in {"set", "server_set"} and table.partition(":")[0] in SCHEMES
        if not has_path:
            yield table


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
    """Return True if only the class that requires the method defines it."""
    requires = next(base for base in part.__mro__ if "required" in vars(base))
    return getattr(part, method, None) is getattr(requires, method, None)


def _tagged_parts(module: Any, kind: type[P]) -> dict[str, type[P]]:
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
