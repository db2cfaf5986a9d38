"""Masks, shares and keys draw from an Entropy and from nothing else; checked on the source text."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import securefl
from tests.looped import looped

PACKAGES = ("base/crypto", "protocol/secure_sum", "methods/encoding", "methods/privacy")
BANNED_MODULES = ("random", "secrets", "uuid", "numpy.random", "torch", "os.urandom", "torch.Generator")
BANNED_CHAINS = ("np.random", "numpy.random", "torch.Generator", "os.urandom", "os.getrandom")
COMPUTED = {"crypten", "validated"}
"""Kinds of sum that torch computes, from what an Entropy gave."""
ROOT = Path(securefl.__file__).parent
SOURCES = sorted(
    path
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if not COMPUTED & set(path.relative_to(ROOT).parts)
)


def other_randomness(source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                imported = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module), level=0, names=names):
                imported = [module, *(f"{module}.{alias.name}" for alias in names)]
            case ast.Attribute():
                imported = [chain for chain in BANNED_CHAINS if ast.unparse(node) == chain]
                found += imported
                continue
            case _:
                continue
        found += [
            name for name in imported if any(f"{name}.".startswith(f"{ban}.") for ban in BANNED_MODULES)
        ]
    return found


@looped("path", SOURCES)
def test_no_other_source_of_randomness(path: Path) -> None:
    assert other_randomness(path.read_text()) == []


def test_every_package_is_looked_at() -> None:
    assert {"/".join(path.relative_to(ROOT).parts[:2]) for path in SOURCES} == set(PACKAGES)


@pytest.mark.parametrize(
    "source",
    [
        "import random",
        "from random import Random",
        "import secrets",
        "import numpy.random as r",
        "from numpy import random",
        "from numpy.random import default_rng",
        "import numpy as np\nnp.random.default_rng(0)",
        "import torch",
        "from torch import Generator",
        "from os import urandom",
        "import os\ndef f():\n    return os.urandom(3)",
    ],
)
def test_the_check_finds(source: str) -> None:
    assert other_randomness(source)


@pytest.mark.parametrize(
    "source", ["import os", "import numpy as np", "from securefl.base.entropy import Entropy"]
)
def test_the_check_lets_pass(source: str) -> None:
    assert not other_randomness(source)
