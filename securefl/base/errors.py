"""Error classes by cause: our own code, a peer, the configuration or the environment.

Every error of securefl carries one line for a person: the fault, its reason and, if there is one, the remedy.
"""

import copyreg
from typing import Any, Final

EXIT_EXPECTED: Final = 0
"""Exit code: the run ended as its scenario expects."""
EXIT_UNEXPECTED: Final = 1
"""Exit code: the run ended, but missed an ``[[expect]]`` entry."""
EXIT_REFUSED: Final = 2
"""Exit code: the configuration was refused before the run started (:class:`ConfigError`)."""
EXIT_ABORTED: Final = 3
"""Exit code: the run could not finish (:class:`RunAbortedError`). Its files remain."""
EXIT_PAUSED: Final = 4
"""Exit code: the run has paused; the same command resumes it."""
EXIT_DECIDE: Final = 5
"""Exit code: a person must decide; repeating the command ends the same way (:class:`DecisionError`)."""


class SecureflError(Exception):
    """Base of all errors that securefl raises; its text is one line for a person.

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
        # The default calls __init__ with args, which hold only the whole line.
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


class UsageError(SecureflError):
    """Wrong call of our own code: a bug in securefl or in a program that uses it."""


class PeerError(SecureflError):
    """A wrong, early, late or forged message of a peer. The receiver's state is unchanged."""

    def __init__(self, culprit: str, reason: str, evidence: bytes = b"") -> None:
        super().__init__(f"rejected a message of {culprit}: {reason}")
        self.culprit = culprit
        self.reason = reason
        self.evidence = evidence
        """Encoded signed values that prove the fault; empty if there are none."""


class ConfigError(SecureflError):
    """A configuration refused before the run started; no file was written.

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
    """A start that needs a person's decision first, such as about a moved account."""

    exit_code = EXIT_DECIDE


class RunAbortedError(SecureflError):
    """A run that cannot continue: no broker, too few parties, a full disk. Its files remain.

    >>> import securefl
    >>> securefl.RunAbortedError("the disk is full").exit_code
    3
    """


class RunHaltedError(RunAbortedError):
    """A run that needs a person's decision, such as between two servers. A restart does not help."""

    exit_code = EXIT_DECIDE
