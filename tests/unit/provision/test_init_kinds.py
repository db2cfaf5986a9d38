"""Sites of new projects in a project file for provisioning."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from securefl.base.errors import ConfigError
from securefl.lab.project import KINDS, Project, write_project
from securefl.runtime.provision.kit import read_kit
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


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ('name = "trial"', "", 'name: is missing (write a name for the federation, such as name = "trial")'),
        ('name = "trial"', "name = 3", "name: expected string, found 3 (write a name for the federation"),
        ('scenario = "federation.toml"', "", "scenario: is missing (write the name of a scenario file"),
        ('[[sites]]\nname = "p00"', "", "sites: is missing (write a table [[sites]] with name"),
        ('[[sites]]\nname = "p00"', '[sites]\nname = "p00"', "(write a table [[sites]] with name"),
        ('[[sites]]\nname = "p00"', "[[sites]]", "sites.0.name: is missing (write the name of a site"),
        ('[broker]\nhost = "localhost"', "", 'broker: is missing (write a table [broker] with host = "..."'),
        ('host = "localhost"', "", "broker.host: is missing (write a host name or an IP address)"),
        (
            'host = "localhost"',
            'host = "a"\nport = 0',
            "found 0 (write a port from 1 to 65535, such as 8883)",
        ),
        ("[broker]", "days = 0\n[broker]", "found 0 (write a number of days from 1 to 3650)"),
        (
            "[broker]",
            "observer = 3\n[broker]",
            "observer: expected true or false, found 3 (name a project file as in docs/",
        ),
    ],
)
def test_each_field_has_a_remedy(before: str, after: str, reason: str, tmp_path: Path) -> None:
    path = project_file(tmp_path, "")
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))
    with pytest.raises(ConfigError, match=re.escape(reason)):
        read_project(path)


def test_a_field_of_a_kit_has_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "kit.toml").write_text("")
    with pytest.raises(ConfigError, match=r"kit: is missing \(name the kit\.toml of securefl provision"):
        read_kit(tmp_path / "kit.toml")
