"""Sites of new projects in a project file for provisioning."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from securefl.base.errors import ConfigError
from securefl.lab.project import KINDS, Project, write_project
from securefl.runtime.provision.project import read_project

PROJECT = """
name = "trial"
scenario = "federation.toml"
{site}
[broker]
host = "localhost"
[[sites]]
name = "p00"
"""


def project_file(folder: Path, site: str) -> Path:
    path = folder / "project.toml"
    path.write_text(PROJECT.format(site=site))
    return path


@pytest.mark.parametrize("kind", sorted({*KINDS} - {"tables"}))
def test_the_readme_names_a_site_that_a_project_may_have(kind: str, tmp_path: Path) -> None:
    write_project(tmp_path / "x", Project(name="x", kind=kind))
    (site,) = re.findall(r'`(site = "[^"]+")`', (tmp_path / "x" / "README.md").read_text())
    assert f'site = "{read_project(project_file(tmp_path, site)).site}"' == site


def test_a_script_is_refused_with_the_page_about_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'train\.py' is not valid \(write module:name; kits start no"):
        read_project(project_file(tmp_path, 'site = "train.py"'))
