from __future__ import annotations

import pickle

from securefl.base.errors import (
    ConfigError,
    DecisionError,
    PeerError,
    RunAbortedError,
    SecureflError,
    UsageError,
)


def test_lines_for_people() -> None:
    assert str(PeerError("p1", "sent nothing")) == "rejected a message of p1: sent nothing"
    assert str(ConfigError("secure_sum.threshold", "is 0")) == "secure_sum.threshold: is 0"
    assert str(ConfigError("a.b", "is 0", "set 1")) == "a.b: is 0 (set 1)"


def test_fields() -> None:
    peer, config = PeerError("p1", "why"), ConfigError("path", "why", "how")
    assert (peer.culprit, peer.reason) == ("p1", "why")
    assert (config.path, config.reason, config.remedy) == ("path", "why", "how")


def test_one_base_and_no_kinship_besides() -> None:
    kinds = (UsageError, PeerError, ConfigError, RunAbortedError)
    for kind in kinds:
        assert issubclass(kind, SecureflError)
        assert not any(issubclass(kind, other) for other in kinds if other is not kind)
    assert not issubclass(SecureflError, ValueError | OSError | RuntimeError)


def test_errors_survive_a_process_boundary() -> None:
    for error in (
        UsageError("why"),
        RunAbortedError("why"),
        PeerError("p1", "why", b"proof"),
        ConfigError("a.b", "is 0", "set 1"),
        DecisionError("out", "was moved"),
    ):
        copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
        assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
