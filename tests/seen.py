"""Patches of names as one module of the product sees them."""

from __future__ import annotations

import inspect
import re
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any
from unittest.mock import patch


class _View:
    """A module with one name replaced, for one importer alone."""

    def __init__(self, module: object, name: str, new: object) -> None:
        self._module = module
        setattr(self, name, new)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def patch_seen(importer: ModuleType, name: str, new: object) -> AbstractContextManager[object]:
    """Replace ``name`` for ``importer`` alone, which has it itself or takes it from a module that it imports.

    ``mock.patch.object`` on the imported module would replace the name for all its importers.

    Raises:
        AttributeError: the importer does not use the name.
    """
    if name in vars(importer):
        return patch.object(importer, name, new)
    used = set(re.findall(rf"(?<![\w.])(\w+)\.{name}\b", inspect.getsource(importer)))
    aliases = sorted(alias for alias in used if isinstance(vars(importer).get(alias), ModuleType | _View))
    if len(aliases) != 1:
        raise AttributeError(f"{importer.__name__} uses {name} of {aliases or 'no module'}")
    view = _View(vars(importer)[aliases[0]], name, new)
    return patch.object(importer, aliases[0], view)
