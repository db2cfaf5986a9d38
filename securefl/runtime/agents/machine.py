"""Kit and policy of an agent's machine, as they are now."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from securefl.base import crypto, files, logs
from securefl.base.errors import ConfigError, SecureflError
from securefl.base.ids import SERVER, PartyId
from securefl.runtime import provision, transport
from securefl.runtime.agents import board, evaluation, policy, register

_LOG: Final = logs.log_of("runtime.agents")
_WRITE: Final = "write one by securefl agent KIT --write-policy, and edit it"


CheckPolicy = Callable[[str, Path, policy.SitePolicy], None]
"""Check of a policy by role and path."""


class AgentMachine:
    """Kit, history, keys and policy. Both files are read again when they change.

    Args:
        kit: ``kit.toml`` of the machine.
        policy_file: None for ``policy.toml`` beside the kit, which only a site must have.
        tell: prints a line.
        check: raises a ConfigError for options of a policy that its machine's process refuses.

    Raises:
        ConfigError: kit or policy are invalid, or the machine takes part in no run.
    """

    def __init__(
        self, kit: Path, policy_file: Path | None, tell: Callable[[str], None], check: CheckPolicy
    ) -> None:
        self._path = kit
        self._tell = tell
        self._check = check
        self._load_kit()
        self.register = register.Register(self.kit.folder, self.history)
        self._policy_file = policy_file or self.kit.folder / policy.POLICY
        self._is_optional = policy_file is None and self.kit.role != "party"
        self.policy: policy.SitePolicy | None = None
        self.policy_text = b""
        """Text of :attr:`policy`, to notice changes."""
        self._fault = ""
        self._works = False
        if (error := self.read_policy()) is not None:
            raise error
        self._works = True

    def _load_kit(self) -> None:
        kit = provision.read_kit(self._path)
        if kit.role in {"broker", "observer"}:
            raise ConfigError(
                str(kit.path), f"is the kit of a {kit.role}", "name that of a site or the server"
            )
        kit.check(provision.utc_now())
        self.kit = kit
        self._kit_text = kit.path.read_bytes()
        self.history = kit.history()
        self.identity = crypto.read_identity(kit.file("key"))
        self.topics = board.Topics(self.history.project)
        self.evaluator = evaluation.SubmissionEvaluator(kit, self.history)

    @property
    def name(self) -> PartyId:
        """Name of the machine."""
        return self.kit.name

    @property
    def leads(self) -> bool:
        """True for the server's machine."""
        return self.kit.name == SERVER

    def brokers(self) -> transport.Brokers:
        """Return the broker of the kit, with this machine's certificate."""
        return transport.parse_brokers(
            self.kit.content.run.broker,
            ca_file=self.kit.file("authority"),
            cert_file=self.kit.file("certificate"),
            key_file=self.kit.file("tls_key"),
        )

    def takes_new_kit(self) -> bool:
        """Load the kit again if an answer was accepted; return True then."""
        with suppress(OSError):
            if self.kit.path.read_bytes() == self._kit_text:
                return False
        try:
            self._load_kit()
        except SecureflError as error:
            # It is written last: its files may still be those of before.
            _LOG.warning("the kit cannot be used yet: %s", error)
            return False
        self._tell(f"the kit has changed: {len(self.history.lines)} entries of history")
        return True

    def read_policy(self) -> ConfigError | None:
        """Read the policy again if it has changed; return the error that stops all work, if any."""
        if self._is_optional and not self._policy_file.exists():
            if self.policy_text or self._fault:
                self._tell("the policy was removed; no code of scenarios is allowed any more")
            self.policy, self.policy_text, self._fault = None, b"", ""
            return None
        try:
            with files.reading(self._policy_file, _WRITE):
                text = self._policy_file.read_bytes()
            if text == self.policy_text and not self._fault:
                return None
            found = policy.read_policy(self._policy_file)
            self._check(self.kit.role, self._policy_file, found)
        except ConfigError as error:
            fault = f"the policy cannot be used: {error}"[:200]
            if fault != self._fault and self._works:
                self._tell(fault)
            self._fault = fault
            return error
        if self._works:
            self._tell("the policy has changed; it applies to runs from their next round")
        self.policy, self.policy_text, self._fault = found, text, ""
        return None

    def reason_to_rest(self) -> str:
        """Return why the site's data may not be used now; empty if they may."""
        hours = self.policy.hours if self.policy is not None and self.kit.role == "party" else None
        if self._fault or hours is None or hours.includes(datetime.now().astimezone()):
            return self._fault
        return f"outside of the policy's hours, {hours.begin} to {hours.end}"
