"""Error classes by cause: our own code, a peer, the configuration or the environment.

Each error carries one line for a person: fault, reason and, if known, remedy.
"""

import copyreg
from typing import Any, Final

EXIT_EXPECTED: Final = 0
"""Exit code: ended as its scenario expects."""
EXIT_UNEXPECTED: Final = 1
"""Exit code: ended, but missed an ``[[expect]]`` entry."""
EXIT_REFUSED: Final = 2
"""Exit code: refused before the start (:class:`ConfigError`)."""
EXIT_ABORTED: Final = 3
"""Exit code: could not finish (:class:`RunAbortedError`). Files remain."""
EXIT_PAUSED: Final = 4
"""Exit code: paused; the same command resumes."""
EXIT_DECIDE: Final = 5
"""Exit code: a person must decide; a repeat ends the same way (:class:`DecisionError`)."""


class SecureflError(Exception):
    """Base of all errors that securefl raises; its text is one line.

    >>> import securefl
    >>> try:
    ...     securefl.load("no-such-scenario")
    ... except securefl.SecureflError as error:
    ...     print(error.exit_code)
    2
    """

    exit_code = EXIT_ABORTED
    """Exit code of a command that ends with the error."""

    def __reduce__(self) -> tuple[Any, ...]:
        # The default calls __init__ with args, which hold the whole line only.
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]  # not in typeshed


class UsageError(SecureflError):
    """Wrong call: a bug in securefl or in a program that uses it."""


class PeerError(SecureflError):
    """Wrong, early, late or forged message of a peer. The receiver's state is unchanged."""

    def __init__(self, culprit: str, reason: str, evidence: bytes = b"") -> None:
        super().__init__(f"rejected a message of {culprit}: {reason}")
        self.culprit = culprit
        self.reason = reason
        self.evidence = evidence
        """Encoded signed values that prove the fault; may be empty."""


class ConfigError(SecureflError):
    """Configuration refused before the run started; no file was written.

    ``path`` names the field (``"secure_sum.threshold"``), file or argument; ``remedy`` may be empty.

    >>> import securefl
    >>> try:
    ...     securefl.load("quickstart", {"stop.rounds": 0})
    ... except securefl.ConfigError as error:
    ...     print(error.path)
    stop.rounds
    """

    exit_code = EXIT_REFUSED

    def __init__(self, path: str, reason: str, remedy: str = "") -> None:
        super().__init__(f"{path}: {reason}" + (f" ({remedy})" if remedy else ""))
        self.path = path
        self.reason = reason
        self.remedy = remedy


class DecisionError(ConfigError):
    """Start that first needs a person's decision, such as about a moved account."""

    exit_code = EXIT_DECIDE


class RunAbortedError(SecureflError):
    """Run that cannot continue: no broker, too few parties, a full disk. Its files remain.

    >>> import securefl
    >>> securefl.RunAbortedError("the disk is full").exit_code
    3
    """


class RunHaltedError(RunAbortedError):
    """Run that needs a person's decision, such as between two servers. A restart does not help."""

    exit_code = EXIT_DECIDE
