"""``securefl doctor``: checks of this machine and of remote brokers."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from securefl.base import loops
from securefl.base.errors import EXIT_ABORTED, ConfigError, SecureflError
from securefl.base.version import __version__
from securefl.cli import options
from securefl.methods import feasibility
from securefl.runtime import agents, launch, provision, report, transport
from securefl.runtime.account import (
    MACHINE_VARIABLE,
    STATE_VARIABLE,
    Mount,
    account_beside,
    check_state_folder,
    mount_of,
    state_folder,
)
from securefl.scenario import load_scenario

_NEEDED = ("aiomqtt", "cryptography", "msgspec", "numpy", "rich", "safetensors", "typer")
_OPTIONAL = {
    "torch": "local training; pip install 'securefl[learn]'",
    "scikit-learn": "the digits data set; pip install 'securefl[learn]'",
    "pillow": "data sets of pictures; pip install 'securefl[images]'",
    "matplotlib": "plots of reproduce; pip install 'securefl[plots]'",
    "dp-accounting": "privacy accounting; pip install 'securefl[dp]'",
    "crypten": "CrypTen sums; pip install 'securefl[crypten]'; pip install --no-deps crypten==0.4.1",
    "amqtt": "the embedded broker; pip install 'securefl[embedded-broker]'",
}

Finding = tuple[str, str, str]
"""Subject, result, state ("ok", "missing" or "note")."""


@options.spread
def doctor(
    files: launch.BrokerFiles,
    *,
    data_dir: Annotated[
        Path | None, typer.Option(envvar="SECUREFL_DATA_DIR", help="Check the data sets in this directory.")
    ] = None,
    broker: Annotated[
        str,
        typer.Option(
            metavar="URL,URL,...", help="Check these brokers too, with the given certificate or user."
        ),
    ] = "",
    key: Annotated[
        Path | None,
        typer.Option(help="Check the folder of this party's account, beside its private key."),
    ] = None,
    kit: Annotated[
        Path | None,
        typer.Option(
            help="Check this kit.toml: files, keys, history, certificates, and its broker over TLS."
        ),
    ] = None,
) -> None:
    """Check libraries, broker, processor, data, and the folder of a party's state.

    Exit codes: 0 all that is needed is there; 2 an option is refused; 3 something needed is missing.
    """
    given = None if kit is None else provision.read_kit(kit)
    if given is not None and given.role == "party" and key is None:
        key = given.file("key")
    brokers = files.given_brokers(broker) if broker else ()
    if data_dir is not None and not data_dir.is_dir():
        raise ConfigError(
            "--data-dir",
            f"{report.printable(str(data_dir), 300)} is not a directory",
            "name an existing one",
        )
    findings = [*_libraries(), *_broker(), *_hardware(), *_data(data_dir)]
    findings += [*_state(key), *map(_remote, brokers)]
    if given is not None:
        findings += _kit(given)
    table = Table(title=f"securefl {__version__}", title_justify="left", show_header=False, box=None)
    colours = {"ok": "green", "missing": "red", "note": "yellow"}
    for what, found, state in findings:
        table.add_row(Text(state, colours[state]), what, Text(report.printable(found, 300)))
    report.Terminal().print(table)
    if any(state == "missing" for _, _, state in findings):
        raise typer.Exit(EXIT_ABORTED)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _libraries() -> Iterator[Finding]:
    yield "python", platform.python_version(), "ok"
    for package in _NEEDED:
        version = _version(package)
        yield package, version or "needed, and not installed", "ok" if version else "missing"
    for package, purpose in _OPTIONAL.items():
        version = _version(package)
        yield package, version or f"not installed ({purpose})", "ok" if version else "note"


def _broker() -> Iterator[Finding]:
    program = transport.find_mosquitto()
    if program is None:
        yield "mosquitto", "not installed (apt-get install mosquitto, brew install mosquitto)", "note"
    else:
        shown = subprocess.run([program, "-h"], capture_output=True, text=True, check=False)  # noqa: S603 - our path
        yield "mosquitto", f"{program} ({(shown.stdout or shown.stderr).partition(chr(10))[0]})", "ok"
    try:
        yield "broker auto", f"a local run will use the {transport.choose_broker('auto')} broker", "ok"
    except ConfigError as error:
        yield "broker auto", str(error), "missing"


def _remote(url: transport.BrokerUrl) -> Finding:

    async def try_connection() -> str:
        name = transport.user_of(url) or "doctor"
        client = f"doctor-{secrets.token_hex(4)}"
        # Access rules are alike for all runs.
        topic = f"sfl/1/{client}/probe/{name}"
        limit = await transport.measure_frame_limit(url, client, topic)
        await transport.check_retention(url, client, topic)
        return f"accepts {name}, messages of {limit // 1024} KiB, and keeps retained ones"

    try:
        return f"broker {url}", loops.run_coroutine(try_connection()), "ok"
    except SecureflError as error:
        return (
            f"broker {url}",
            str(error).replace(f"the broker {url}", "it").removeprefix(f"broker {url} "),
            "missing",
        )


def _kit(kit: provision.MachineKit) -> Iterator[Finding]:
    """Check a kit, its scenario and the access to its broker."""
    yield from kit.findings(provision.utc_now())
    if kit.role == "broker":
        return
    if not kit.content.files.scenario:
        yield from _kit_broker(kit)
        return
    try:
        yield "kit code", agents.check_kit_code(kit), "ok"
        # After this check: it imports that code.
        loaded = load_scenario(kit.file("scenario"), (f"parties={kit.content.run.parties}",))
        feasibility.check(loaded)
        yield "kit scenario", f"{loaded.name} for {loaded.parties} parties", "ok"
    except SecureflError as error:
        yield "kit scenario", str(error), "missing"
    data = kit.content.run.data
    if data:
        found = (kit.folder / data).exists()
        yield (
            "kit data",
            str(kit.folder / data) if found else f"{kit.folder / data} is missing",
            ("ok" if found else "missing"),
        )
    yield from _kit_broker(kit)


def _kit_broker(kit: provision.MachineKit) -> Iterator[Finding]:
    try:
        (url,) = launch.BrokerFiles(
            tls_ca=kit.file("authority"), tls_cert=kit.file("certificate"), tls_key=kit.file("tls_key")
        ).given_brokers(kit.content.run.broker)
    except SecureflError as error:
        yield "kit broker", str(error), "missing"
        return
    yield _remote(url)


def _state(key: Path | None) -> Iterator[Finding]:
    """Yield findings on account and state folder: both must outlive this container, or neither.

    Without a key this may be a server's machine, which needs no state folder.
    """
    try:
        check_state_folder()
        state = state_folder()
    except ConfigError as error:
        found = str(error).removeprefix("state folder: ")
        yield "state folder", found, "note" if key is None else "missing"
        return
    places = (
        {"state folder": state} if key is None else {"account": account_beside(key), "state folder": state}
    )
    mounts = {what: mount_of(path) for what, path in places.items()}
    for what, mount in mounts.items():
        yield _persistence_finding(what, places[what], mount)
    if None not in mounts.values() and len(set(mounts.values())) > 1:
        where = " and ".join(f"{what} on {mount.point}" for what, mount in mounts.items() if mount)
        yield "one mount", f"{where}: a backup of only one of them is refused; set {STATE_VARIABLE}", "note"
    named = os.environ.get(MACHINE_VARIABLE)
    if named:
        yield "machine name", f"{named} ({MACHINE_VARIABLE})", "ok"
    elif in_container():
        found = f"the host name, which a new container changes: set {MACHINE_VARIABLE}"
        yield "machine name", found, "note"
    else:
        yield "machine name", "host name and machine id", "ok"


def _persistence_finding(what: str, path: Path, mount: Mount | None) -> Finding:
    if mount is None:
        return what, f"{path} (no list of mounts on this system)", "ok"
    if mount.is_durable:
        return what, f"{path} on {mount.point} ({mount.kind})", "ok"
    return what, f"{path} on {mount.point} ({mount.kind}) is lost with the container or at a reboot", "note"


def in_container() -> bool:
    """Return True if this process seems to run in a container."""
    marks = (Path("/.dockerenv"), Path("/run/.containerenv"))
    return any(mark.exists() for mark in marks) or "KUBERNETES_SERVICE_HOST" in os.environ


def _hardware() -> Iterator[Finding]:
    yield "processors", f"{os.cpu_count()} ({platform.machine()})", "ok"
    if importlib.util.find_spec("torch") is not None:
        import torch  # noqa: PLC0415 - importing it takes a second, and only this line needs it

        cuda = torch.cuda.is_available()
        yield "cuda", torch.cuda.get_device_name() if cuda else "none: training runs on the CPU", "ok"


def _data(data_dir: Path | None) -> Iterator[Finding]:
    yield "data set digits", "bundled with scikit-learn", "ok" if _version("scikit-learn") else "note"
    for name in ("mnist", "fashion-mnist", "cifar10", "shakespeare"):
        if data_dir is None:
            yield f"data set {name}", "not checked (give --data-dir)", "note"
            continue
        from securefl.training.data import load_dataset  # noqa: PLC0415 - keeps start-up short

        try:
            dataset = load_dataset(name, data_dir)
        except ConfigError as error:
            yield f"data set {name}", str(error), "note"
        else:
            yield (
                f"data set {name}",
                f"{dataset.title}: {len(dataset.y_train)} + {len(dataset.y_test)} samples",
                "ok",
            )
