"""``securefl init`` for other frameworks: the projects run at once, and their own tests pass."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.interop.commands import FLOWER, NVFLARE, command, evaluated, securefl

pytestmark = pytest.mark.interop


KINDS = [("flower", FLOWER, "app.client:app"), ("nvflare", NVFLARE, "train.py")]


@pytest.mark.parametrize(("kind", "python", "site"), KINDS)
def test_a_project_runs_at_once(kind: str, python: Path, site: str, tmp_path: Path) -> None:
    folder = tmp_path / "clinics"
    told = securefl(f"init|{folder}|--kind|{kind}|--site-python|{python}", tmp_path)
    first = f"securefl simulate federation.toml --site {site} --site-python {python}"
    assert f"next: cd {folder} && {first}" in told
    securefl(f"site|check|federation.toml|{site}|--site-python|{python}", folder)
    securefl(f"run|federation.toml|--site|{site}|--site-python|{python}|--broker|embedded|--out|live", folder)
    assert evaluated(folder / "live", "accuracy")[-1] > 0.8
    own = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_federation.py"]
    assert "1 passed" in command(own, folder, PYTHON=str(python))
