"""Error classes by whose fault it is: ours, a peer's, the configuration's, or the environment's.

Every error that leaves securefl carries one line for a person: what, why and, where there is one, the remedy.
"""

from typing import Final

EXIT_EXPECTED: Final = 0
"""Exit code: the run ended as its scenario expects."""
EXIT_UNEXPECTED: Final = 1
"""Exit code: the run ended, but not as its ``[[expect]]`` entries say."""
EXIT_REFUSED: Final = 2
"""Exit code: the configuration was refused before anything ran (:class:`ConfigError`)."""
EXIT_ABORTED: Final = 3
"""Exit code: the run could not be finished (:class:`RunAbortedError`). What was written stays."""
EXIT_PAUSED: Final = 4
"""Exit code: the run is not over; it goes on where it was once the same command is given again."""
EXIT_DECIDE: Final = 5
"""Exit code: a person must decide; the same command would end like this again (:class:`DecisionError`)."""


class SecureflError(Exception):
    """Base of all errors that securefl raises on purpose; its text is one line for a person.

    >>> import securefl
    >>> try:
    ...     securefl.load("no-such-scenario")
    ... except securefl.SecureflError as error:
    ...     print(error.exit_code)
    2
    """

    exit_code = EXIT_ABORTED
    """Exit code of a command that ends with the error."""


class UsageError(SecureflError):
    """We called our own code wrongly: a bug in securefl or in a program that uses it."""


class PeerError(SecureflError):
    """A peer sent something wrong, early, late or forged. The receiver's state is unchanged."""

    def __init__(self, culprit: str, reason: str, evidence: bytes = b"") -> None:
        super().__init__(f"rejected a message of {culprit}: {reason}")
        self.culprit = culprit
        self.reason = reason
        self.evidence = evidence
        """Encoded signed values that show the fault; empty if there are none."""


class ConfigError(SecureflError):
    """The configuration is refused before anything runs; nothing was written.

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
    """The process must not start before a person has decided, as about an account that was moved."""

    exit_code = EXIT_DECIDE


class RunAbortedError(SecureflError):
    """The run cannot go on: no broker, too few parties, a full disk. Files that were written stay.

    >>> import securefl
    >>> securefl.RunAbortedError("the disk is full").exit_code
    3
    """


class RunHaltedError(RunAbortedError):
    """The run cannot go on here before a person has decided, as between two servers. No restart helps."""

    exit_code = EXIT_DECIDE
