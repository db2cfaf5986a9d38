"""Figure files, found, read and checked; and what a curve's scenario is."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from securefl.config.limits import check
from securefl.config.load import decoded, load_scenario
from securefl.config.scenario import Scenario
from securefl.config.section import Section
from securefl.errors import ConfigError
from securefl.reproduce.figure import AnyClaim, Figure, ScaleName

_WHERE = re.compile(r" - at `\$\.?(?P<path>.*)`$")
_Table = TypeVar("_Table", bound=Section)
STUDY: Final = "_study.toml"
"""Marks a folder whose files are sheets (:mod:`securefl.reproduce.sheets`)."""
TRIALS: Final = "_trials.toml"
"""Marks a folder whose figures are trials without a federation (:mod:`securefl.reproduce.groups`)."""
ALL: Final = "all"
"""Instead of panels: every one of them."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A figure file and where it was found."""

    paper: str
    path: Path
    figure: Figure

    def scenarios(self, scale: ScaleName) -> dict[str, Scenario]:
        """The scenario of each curve, by its label, each one feasible.

        Raises:
            ConfigError: the figure has no such scale; a file, an override or what comes of it is refused.
        """
        figure = self.figure
        if scale not in figure.scale:
            raise ConfigError(
                "--scale", f"figure {figure.panel} has no {scale!r} scale", f"{', '.join(figure.scale)}"
            )
        size = figure.scale[scale]
        made: dict[str, Scenario] = {}
        for curve in figure.curves:
            overrides = (*figure.overrides, *size.overrides, *curve.overrides)
            try:
                made[curve.label] = load_scenario(self.path.parent / size.scenario, overrides)
                check(made[curve.label])
            except ConfigError as error:
                where = f"{self.path.name}, {scale} scale, curve {curve.label!r}: {error.path}"
                raise ConfigError(where, error.reason, error.remedy) from error
        return made


def papers(root: Path) -> dict[str, tuple[Preset, ...]]:
    """All figure files by paper, in the order of their panels; papers of sheets and of trials are left out.

    Args:
        root: folder with one folder per paper.

    Raises:
        ConfigError: a figure file is refused.
    """
    found: dict[str, tuple[Preset, ...]] = {}
    marked = {path.parent for name in (STUDY, TRIALS) for path in root.glob(f"*/{name}")}
    for folder in sorted(path for path in root.iterdir() if path.is_dir() and path not in marked):
        files = [path for path in folder.glob("*.toml") if not path.name.startswith("_")]
        if files:
            presets = (Preset(folder.name, path, read_figure(path)) for path in files)
            found[folder.name] = tuple(sorted(presets, key=lambda preset: _order(preset.figure.panel)))
    return found


def choose(presets: tuple[Preset, ...], wanted: tuple[str, ...]) -> tuple[Preset, ...]:
    """The presets that ``wanted`` names: panels (``5f``), figures (``5``: all of its panels), or ``all``.

    Raises:
        ConfigError: there is no such panel.
    """
    chosen: set[str] = set()
    for name in wanted:
        named = {p.figure.panel for p in presets if name in {p.figure.panel, p.figure.panel[:-1], ALL}}
        if not named:
            there = ", ".join(preset.figure.panel for preset in presets)
            raise ConfigError("--figure", f"there is no figure {name!r}", f"{there}, or {ALL}")
        chosen |= named
    return tuple(preset for preset in presets if preset.figure.panel in chosen)


def read_figure(path: Path) -> Figure:
    """Read and check one figure file.

    Raises:
        ConfigError: with the file (and field) that is unreadable, unknown, missing or out of range; a claim
            names a curve that there is not; two curves have one label; the panel is not the file's name.
    """
    figure = read_section(path, Figure)
    check_labels(path, [curve.label for curve in figure.curves], figure.claims)
    if figure.panel != path.stem:
        raise ConfigError(f"{path}, panel", f"is {figure.panel!r}, and the file is called {path.name}")
    return figure


def read_section(path: Path, kind: type[_Table]) -> _Table:
    """Read a TOML file as one table.

    Raises:
        ConfigError: with the file (and field) that is unreadable, unknown, missing or out of range.
    """
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
        return decoded(raw, kind)
    except ConfigError as error:
        raise ConfigError(f"{path}, {error.path}", error.reason, error.remedy) from error
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(str(path), f"is not TOML: {error}") from error
    except msgspec.ValidationError as error:
        where = _WHERE.search(str(error))
        reason = _WHERE.sub("", str(error))
        field = f", {where['path']}" if where and where["path"] else ""
        raise ConfigError(f"{path}{field}", reason[:1].lower() + reason[1:]) from error


def check_labels(path: Path, labels: Sequence[str], claims: Sequence[AnyClaim]) -> None:
    """Refuse labels that cannot be told apart, and claims about curves that there are not.

    Raises:
        ConfigError: with the file and the claim.
    """
    if len(set(labels)) < len(labels):
        raise ConfigError(f"{path}, curves", "two curves have the same label")
    for index, claim in enumerate(claims):
        unknown = sorted(labels_of(claim) - set(labels))
        if unknown:
            raise ConfigError(
                f"{path}, claims.{index}", f"there is no curve {unknown[0]!r}", f"one of {', '.join(labels)}"
            )


def labels_of(claim: AnyClaim) -> set[str]:
    """The labels of all curves that a claim compares."""
    others: Mapping[str, object] = msgspec.structs.asdict(claim)
    than, of = others.get("than", ()), others.get("of")
    return {
        *claim.curves,
        *(than if isinstance(than, tuple) else ()),
        *((of,) if isinstance(of, str) else ()),
    }


def nameless(scenario: Scenario) -> Scenario:
    """The scenario without what does not change its course, so that equal curves of two panels are equal."""
    return replace(scenario, description="", expect=(), observer=False)


def _order(panel: str) -> tuple[int, str]:
    digits = panel.rstrip("abcdefghijklmnopqrstuvwxyz")
    return int(digits), panel[len(digits) :]
