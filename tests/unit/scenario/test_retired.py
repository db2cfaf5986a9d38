"""Fields of earlier versions: read with the value that all runs have, refused with another."""

from __future__ import annotations

import pytest

from securefl.base.errors import ConfigError
from securefl.scenario import retired
from securefl.scenario.load import parse_scenario
from securefl.scenario.resolved import scenario_digest
from securefl.scenario.retired import FIELDS
from tests.looped import looped

SMALL = 'name = "small"\nparties = 12\n'


@looped("path", FIELDS)
def test_another_value_is_refused_by_name_with_a_remedy(path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_scenario(SMALL, (f"{path}=9",))
    assert str(caught.value).startswith(f"{path}: was removed from scenarios: ")
    assert caught.value.remedy


@looped("path", FIELDS)
def test_a_file_of_an_earlier_version_is_read_as_before(path: str) -> None:
    value = FIELDS[path].value
    stated = () if value is None else (f"{path}={value}",)
    assert parse_scenario(SMALL, stated) == parse_scenario(SMALL)


def test_the_digest_holds_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors of frames and recorded runs pin the digest itself."""
    digest = scenario_digest(parse_scenario(SMALL))
    monkeypatch.setattr(retired, "FIELDS", {})
    assert scenario_digest(parse_scenario(SMALL)) != digest
