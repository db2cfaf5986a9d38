"""The operator's side: submissions, stop orders, and the notices of all agents.

The operator connects with a certificate of one day, which its authority issues for each command.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final

import msgspec

from securefl.base import files
from securefl.base.errors import ConfigError, RunAbortedError
from securefl.base.ids import DEALER, SERVER, PartyId, is_name
from securefl.runtime import provision, transport
from securefl.runtime.agents import board, evaluation, register, submission
from securefl.scenario import Scenario, load_scenario, scenario_digest
from securefl.training import models

RUNS: Final = "runs"
"""Folder of submissions in the operator's folder."""
_SUBMISSION: Final = "submission.json"
_WITHIN: Final = 20.0
"""Seconds for the broker's answer."""
_PATIENCE: Final = 30.0


@dataclass(frozen=True, kw_only=True)
class Wish:
    """Run that the operator submits; empty fields follow from the project."""

    run: str
    scenario: Path | None = None
    weights: Path | None = None
    site: str = ""
    data: str = ""
    without: tuple[str, ...] = ()
    """Sites that do not take part."""
    hours: float = 24.0
    """Validity of the submission."""
    note: str = ""


@dataclass
class BoardState:
    """Messages at the broker, verified."""

    orders: dict[str, submission.Order] = field(default_factory=dict)
    notices: dict[str, dict[PartyId, submission.Notice]] = field(default_factory=dict)
    """Latest notice by run and machine, of the run's submission."""
    refused: list[str] = field(default_factory=list)
    """Errors of messages that are not valid."""

    def take(self, history: provision.History, address: board.Address, payload: bytes) -> None:
        """Verify and keep one message; an invalid one is noted."""
        source = f"{address.kind} of {address.run[:40]!r}"
        try:
            if address.kind == "submission":
                order = submission.read_submission(payload, history, source)
                self.orders[order.content.run] = order
            elif address.kind == "notice":
                notice = submission.read_notice(payload, history, source)
                former = self.notices.setdefault(notice.run, {}).get(PartyId(notice.name))
                if former is None or former.number <= notice.number:
                    self.notices[notice.run][PartyId(notice.name)] = notice
        except ConfigError as error:
            self.refused.append(str(error))

    def notices_of(self, order: submission.Order) -> Mapping[PartyId, submission.Notice]:
        """Return the latest notices about a submission by machine."""
        found = self.notices.get(order.content.run, {})
        return {name: one for name, one in found.items() if one.submission == order.digest}


def prepare(folder: Path, wish: Wish) -> tuple[submission.Order, bytes]:
    """Sign a submission, and keep it in the operator's folder; return it with its first weights.

    Raises:
        ConfigError: the run's id was used before, the scenario does not fit the roster, or a file is missing.
            Nothing is written.
    """
    if not is_name(wish.run):
        raise ConfigError(
            "RUN", f"{wish.run[:40]!r} is not an id of a run", "use a-z, 0-9, - and _, at most 32"
        )
    if not 0 < wish.hours <= 24 * 365:
        raise ConfigError(
            "--hours", f"{wish.hours:g} is not above 0 and at most 8760", "give hours, such as 24 for a day"
        )
    own = folder / RUNS / wish.run
    # Without a submission, an earlier command was interrupted before it sent one.
    if (own / _SUBMISSION).exists():
        raise ConfigError(
            "RUN", f"{wish.run!r} was submitted before", "choose a new id: each agent takes an id once"
        )
    with provision.Authority.open(folder) as authority:
        history, project = authority.history, authority.project
        known = set(history.roster().parties)
        if stray := [name for name in wish.without if PartyId(name) not in known]:
            raise ConfigError(
                "--without", f"{stray[0]!r} is not a site of the roster", f"sites: {', '.join(sorted(known))}"
            )
        parties = tuple(sorted(known - set(map(PartyId, wish.without))))
        file = wish.scenario or folder / project.scenario
        with files.reading(file):
            text = file.read_text(encoding="utf-8-sig")
        if len(text) > submission.SCENARIO_BYTES:
            raise ConfigError(
                str(file), f"has more than {submission.SCENARIO_BYTES} characters", "shorten its comments"
            )
        with _naming(file):
            scenario = load_scenario(file, (f"parties={len(parties)}",))
        by_sites = scenario.model.by_sites
        _check_work(scenario, wish, site=project.site, data=project.data)
        weights = _read_weights(folder, scenario, wish)
        content = submission.Submission(
            project=history.project,
            run=wish.run,
            submitted=submission.utc_text(provision.utc_now()),
            expires=submission.utc_text(provision.utc_now() + timedelta(hours=wish.hours)),
            history=history.head,
            parties=parties,
            scenario=text,
            scenario_digest="0" * 64,
            site=(wish.site or project.site) if by_sites else "",
            data="" if by_sites else (wish.data or project.data),
            server_data="" if by_sites else project.server.data,
            weights_digest=provision.sha256(weights) if weights else "",
            weights_bytes=len(weights),
            note=submission.line_of(wish.note),
        )
        with _naming(file):
            resolved = evaluation.load_run_scenario(file, content)
        content = msgspec.structs.replace(content, scenario_digest=scenario_digest(resolved).hex())
        signed = submission.sign_body("securefl submission", content, authority.operator)
        order = submission.read_submission(submission.encode_signed(signed), history, "submission")
    own.mkdir(parents=True, exist_ok=True)
    if weights:
        provision.write_file(own / register.WEIGHTS, weights)
    provision.write_file(own / _SUBMISSION, submission.encode_signed(signed))
    return order, weights


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Let errors about fields of a scenario name its file."""
    try:
        yield
    except ConfigError as error:
        if str(file) in error.path:
            raise
        raise ConfigError(f"{file}: {error.path}", error.reason, error.remedy) from None


def _check_work(scenario: Scenario, wish: Wish, *, site: str, data: str) -> None:
    """Check the names of code and samples before anything is signed.

    Args:
        scenario: of the run.
        wish: of the operator.
        site: code of the project; empty without.
        data: samples of the project; empty without.

    Raises:
        ConfigError: one is not valid, of no use to this scenario, or missing.
    """
    by_sites, kind = scenario.model.by_sites, f'model.type = "{scenario.model.name}"'
    if wish.site and not submission.is_site(wish.site):
        raise ConfigError(
            "--site", f"{wish.site[:60]!r} is not a name of code", "write module:name, such as train:Site"
        )
    if wish.data and not provision.plain_file(wish.data):
        raise ConfigError(
            "--data", f"{wish.data[:60]!r} is not the name of a file", "name it without folders: samples.npz"
        )
    if by_sites and wish.data:
        raise ConfigError(
            "--data",
            f"is given, and {kind} is trained by the sites' code",
            "leave it out, or name code: --site",
        )
    if not by_sites and wish.site:
        raise ConfigError(
            "--site", f"is given, and {kind} has built-in training", "leave it out, or name samples: --data"
        )
    if by_sites and not (wish.site or site):
        raise ConfigError("--site", f"is missing: {kind} is trained by the sites' code", "write module:name")
    if not by_sites and not (wish.data or data):
        raise ConfigError(
            "--data", f"is missing: {kind} needs samples at each site", "write the name of a file"
        )


def _read_weights(folder: Path, scenario: Scenario, wish: Wish) -> bytes:
    name = scenario.model.first_file
    if not name:
        if wish.weights is not None:
            raise ConfigError("--weights", "is given, and the scenario has no first weights", "leave it out")
        return b""
    own = folder / Path(name).name
    file, field = wish.weights or own, "model.file" if wish.weights is None else "--weights"
    with files.reading(file, "write it by securefl site weights, or name it by --weights"):
        if file.stat().st_size > submission.WEIGHTS_BYTES:
            raise ConfigError(
                field,
                f"{file} has more than {submission.WEIGHTS_BYTES >> 30} GiB",
                "submit less, such as an adapter's weights",
            )
        content = file.read_bytes()
    provision.check_weights(scenario, file, content, field)
    if file != own and wish.scenario is None and not wish.site and own.exists():
        with files.reading(own):
            former = own.read_bytes()
        models.check_same_arrays(content, file, former, own.name, field)
    return content


@asynccontextmanager
async def connect_operator(folder: Path) -> AsyncIterator[tuple[OperatorLink, provision.History]]:
    """Connect to the project's broker as the operator.

    Raises:
        ConfigError: the folder is not an operator's, or the broker refuses the operator.
        RunAbortedError: the broker is out of reach.
    """
    with tempfile.TemporaryDirectory(prefix="securefl-operator-") as scratch:
        with provision.Authority.open(folder) as authority:
            history = authority.history
            brokers = transport.parse_brokers(
                authority.project.broker.url,
                password=None,
                **authority.client_files(Path(scratch), provision.utc_now()),
            )
        topics = board.Topics(history.project)
        link = await transport.MqttTransport.connect(
            brokers,
            f"operator-{history.project}",
            (f"{topics.root}/#",),
            limits=transport.MqttLimits(give_up_after=_PATIENCE),
        )
        try:
            yield OperatorLink(link, topics, history), history
        finally:
            await link.close()


class OperatorLink:
    """Open connection of the operator."""

    def __init__(
        self, link: transport.MqttTransport, topics: board.Topics, history: provision.History
    ) -> None:
        self._link = link
        self._topics = topics
        self._history = history
        self.state = BoardState()

    async def submit(self, order: submission.Order, weights: bytes) -> None:
        """Publish a submission with its first weights."""
        run = order.content.run
        await self._link.publish(
            self._topics.submission(run), submission.encode_signed(order.signed), retain=True
        )
        parts = enumerate(board.parts_of(weights))
        await asyncio.gather(
            *(self._link.publish(self._topics.part(run, number), part, retain=True) for number, part in parts)
        )

    async def stop(self, signed: provision.SignedFile, run: str) -> None:
        """Publish a stop order."""
        await self._link.publish(self._topics.stop(run), submission.encode_signed(signed), retain=True)

    async def refresh(self) -> None:
        """Read all retained messages.

        Raises:
            RunAbortedError: the broker does not answer in time.
        """
        probe = self._topics.probe
        await self._link.publish(probe, b"probe")
        try:
            async with asyncio.timeout(_WITHIN):
                # Retained messages came before, as they were sent with the subscription.
                while await self.next_message() != probe:
                    continue
        except TimeoutError:
            raise RunAbortedError(f"the broker sends no messages within {_WITHIN:.0f} s") from None

    async def next_message(self) -> str:
        """Take the next message into :attr:`state`; return its topic."""
        frame = await self._link.receive()
        address = self._topics.read(frame.topic)
        if address is not None and frame.payload:
            self.state.take(self._history, address, frame.payload)
        return frame.topic


def sign_stop(folder: Path, order: submission.Order, reason: str) -> provision.SignedFile:
    """Return a stop order for a submission.

    Raises:
        ConfigError: the folder is not an operator's.
    """
    with provision.Authority.open(folder) as authority:
        content = submission.StopOrder(
            project=order.content.project,
            run=order.content.run,
            submission=order.digest,
            reason=submission.line_of(reason),
        )
        return submission.sign_body("securefl stop order", content, authority.operator)


def machines_of(order: submission.Order, history: provision.History) -> list[PartyId]:
    """Return the machines whose agents answer a submission, the server first."""
    dealer = [DEALER] if DEALER in history.present else []
    return [SERVER, *dealer, *map(PartyId, order.content.parties)]


def state_shown(
    name: PartyId, notices: Mapping[PartyId, submission.Notice], history: provision.History
) -> str:
    """Return the state of a machine in a run for people.

    Without a valid notice it is "removed" or "revoked" if the machine left the roster, else "no answer".
    """
    if name in notices:
        return notices[name].state
    member = history.members.get(name)
    return (member.gone if member is not None else "") or "no answer"


def submitted_before(folder: Path) -> dict[str, submission.Order]:
    """Return the submissions that the operator's folder keeps, by run."""
    history = provision.history_of(folder / provision.HISTORY)
    found: dict[str, submission.Order] = {}
    for path in sorted((folder / RUNS).glob(f"*/{_SUBMISSION}")):
        with files.reading(path):
            raw = path.read_bytes()
        order = submission.read_submission(raw, history, str(path))
        found[order.content.run] = order
    return found


def repeat_files(folder: Path, order: submission.Order) -> bytes:
    """Return the first weights of a kept submission; empty without."""
    if not order.content.weights_bytes:
        return b""
    path = folder / RUNS / order.content.run / register.WEIGHTS
    with files.reading(path, "restore it from a backup"):
        return path.read_bytes()
