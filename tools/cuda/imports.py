"""Import each module of securefl in this interpreter: ``python -m tools.cuda.imports MESSAGE``.

``MESSAGE`` is that of the ImportError which the stub of torch raises. Wings that never import torch have to
import; a module of the others may fail only for that error. Standard library only.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
WITHOUT_TORCH = ("base", "scenario", "methods", "protocol", "lab.planning", "cli.app")
"""Parts of securefl that do not import torch."""
WITH_TORCH = ("protocol.secure_sum.crypten.preloaded",)
"""Modules of these parts that import CrypTen, and so torch."""
OTHER_FRAMEWORKS = ("flwr", "nvflare")
"""Packages that only adapters of other frameworks import, and that no kit has."""


def modules(root: Path) -> list[str]:
    """Return the dotted names of the modules of securefl, without programs (``__main__``)."""
    paths = sorted((root / "securefl").rglob("*.py"))
    names = [path.relative_to(root).with_suffix("").parts for path in paths if path.stem != "__main__"]
    return [".".join(name[:-1] if name[-1] == "__init__" else name) for name in names]


def is_torch_free(name: str) -> bool:
    """Return True if the module has to import without torch."""
    return _within(name, WITHOUT_TORCH) and not _within(name, WITH_TORCH)


def _within(name: str, parts: tuple[str, ...]) -> bool:
    return any(f"{name}.".startswith(f"securefl.{part}.") for part in parts)


def needs_torch(error: BaseException, stub_message: str) -> bool:
    """Return True if the stub of torch raised the error or one of its causes."""
    causes: BaseException | None = error
    while causes is not None:
        if isinstance(causes, ImportError) and str(causes) == stub_message:
            return True
        causes = causes.__cause__ or causes.__context__
    return False


def main(stub_message: str) -> int:
    """Import all; return 1 if a module fails that must not."""
    imported, awaiting, foreign = 0, 0, 0
    failed = []
    for name in modules(ROOT):
        try:
            importlib.import_module(name)
        except Exception as error:
            if needs_torch(error, stub_message) and not is_torch_free(name):
                awaiting += 1
            elif isinstance(error, ModuleNotFoundError) and error.name in OTHER_FRAMEWORKS:
                foreign += 1
            else:
                failed.append(f"{name}: {type(error).__name__}: {error}")
        else:
            imported += 1
    for line in failed:
        print(f"cannot import {line}")
    print(
        f"{imported} modules imported, {awaiting} need torch, {foreign} need another framework,"
        f" {len(failed)} failed"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
