"""Puts the scenario files of the repository into the package; the rest stands in pyproject.toml."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["securefl*"]), "securefl.bundled"],
    package_dir={"securefl.bundled": "scenarios"},
    package_data={
        "securefl": ["py.typed"],
        "": ["*.pyi"],
        "securefl.lab.handover": ["card.md.j2"],
        "securefl.lab.project": ["templates/*/*.j2", "templates/*/*/*.j2"],
        "securefl.lab.run_page": ["page.css", "page.html"],
        "securefl.bundled": ["*.toml", "comparisons/*.toml", "leakage/*.toml", "papers/*/*.toml"],
    },
)
