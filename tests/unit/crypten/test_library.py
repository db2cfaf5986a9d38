"""What is said when CrypTen or a GPU is missing, or of another version."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Iterator

import pytest

from securefl.base.errors import ConfigError
from securefl.protocol.secure_sum.crypten import library


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    loaded = library.load()
    library.load.cache_clear()
    yield
    library.load.cache_clear()
    assert library.load().crypten is loaded.crypten


@pytest.mark.parametrize(
    ("version", "reason"),
    [("0.4.0", "too old"), ("0.1", "too old"), ("0.5.0", "newer"), ("1.0", "newer")],
)
def test_other_versions_are_refused_with_the_install_line(
    monkeypatch: pytest.MonkeyPatch, version: str, reason: str
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda _name: version)
    with pytest.raises(ConfigError, match=rf"^secure_sum.kind: CrypTen {version} is .*{reason}.*--no-deps"):
        library.load()


@pytest.mark.parametrize("version", ["0.4.1", "0.4.1+cpu", "0.4.2"])
def test_known_versions_pass(version: str) -> None:
    library.check_version(version)


@pytest.mark.parametrize("missing", ["crypten", "omegaconf"])
def test_a_missing_library_is_named_with_the_install_line(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    if missing == "crypten":

        def absent(_name: str) -> str:
            raise importlib.metadata.PackageNotFoundError(_name)

        monkeypatch.setattr(importlib.metadata, "version", absent)
    else:

        def broken(_name: str) -> None:
            raise ModuleNotFoundError(name=missing)

        monkeypatch.setattr(importlib, "import_module", broken)
    with pytest.raises(
        ConfigError, match=rf"needs the library {missing}.*pip install --no-deps crypten==0.4.1"
    ):
        library.load()


def test_a_package_without_its_module_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an interrupted installation leaves: the version is there, the module is not."""
    library.check_installed()
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "crypten" else real(name))
    with pytest.raises(ConfigError, match=r"^secure_sum.kind: .*needs the library crypten.*--no-deps"):
        library.check_installed()


def test_a_gpu_is_taken_where_there_is_one() -> None:
    has_cuda = library.load().torch.cuda.is_available()
    assert library.device_of("auto") == ("cuda" if has_cuda else "cpu")
    assert library.device_of("cpu") == "cpu"
    if has_cuda:
        assert library.device_of("cuda") == "cuda"
    else:
        with pytest.raises(ConfigError, match=r"^training.device: .*no GPU"):
            library.device_of("cuda")
