from __future__ import annotations

import pickle

from securefl.base.errors import ConfigError, PeerError, RunAbortedError, SecureflError, UsageError


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


def test_the_plain_ones_survive_a_process_boundary() -> None:
    for error in (UsageError("why"), RunAbortedError("why")):
        assert str(pickle.loads(pickle.dumps(error))) == "why"  # noqa: S301 - our own bytes
