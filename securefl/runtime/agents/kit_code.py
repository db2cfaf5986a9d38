"""Code that a kit names: the operator chooses it, and the policy of the machine must allow it."""

from __future__ import annotations

from typing import Final

from securefl.base import files
from securefl.base.errors import ConfigError
from securefl.runtime import provision
from securefl.runtime.agents import policy
from securefl.runtime.agents.code_digest import digests_of
from securefl.scenario import own_names, parse_table

_FIRST: Final = "read this code, then allow it: securefl agent kit.toml --write-policy"
_CHANGE: Final = (
    "read this code, then copy its line from: securefl agent kit.toml --policy new.toml --write-policy"
)


def code_of_kit(kit: provision.MachineKit, *, own_site: bool = False) -> list[str]:
    """Return each ``module:name`` that a run with a kit imports: site, and own parts of the scenario.

    Args:
        kit: of the machine.
        own_site: True if the machine's owner names the site, in place of the kit's.

    Raises:
        ConfigError: the scenario cannot be read.
    """
    content = kit.content
    names = [content.run.site] if content.run.site and not own_site else []
    if content.files.scenario:
        path = kit.file("scenario")
        with files.reading(path):
            text = path.read_text(encoding="utf-8-sig")
        try:
            names += own_names(parse_table(text, str(path)))
        except RecursionError:
            raise ConfigError(str(path), "has too many levels", "ask the operator for fewer") from None
    return list(dict.fromkeys(names))


def check_kit_code(kit: provision.MachineKit, *, own_site: bool = False) -> str:
    """Check that the policy beside a kit allows all its code, with the digests of today; import nothing.

    Args:
        kit: of the machine.
        own_site: as for :func:`code_of_kit`.

    Returns:
        The result for people.

    Raises:
        ConfigError: there is no policy, or it does not allow a name, or the code has another digest.
    """
    names = code_of_kit(kit, own_site=own_site)
    if not names:
        return "no code of the operator's choice"
    path = kit.folder / policy.POLICY
    if not path.exists():
        raise ConfigError(str(path), f"is missing, and this kit of the operator imports {names[0]}", _FIRST)
    given = policy.read_policy(path)
    against = next(policy.code_violations(given, digests_of(names, given.code, kit.folder)), "")
    if against:
        raise ConfigError(str(path), against, _CHANGE)
    return f"{', '.join(names)} as {path.name} allows"
