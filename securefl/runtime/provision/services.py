"""Services of a machine: systemd unit, Compose file, container recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from securefl.runtime.provision.kit import KIT

_COMMON: Final = """\
User={user}
UMask=0077
WorkingDirectory={folder}
NoNewPrivileges=true
PrivateTmp=true
ProtectSystem=strict
ProtectHome=read-only
ProtectKernelTunables=true
ProtectControlGroups=true
RestrictSUIDSGID=true
"""
_MEMBER: Final = """\
# Written by securefl provision accept. The instance is the id of the run: systemctl start {stem}@RUN
[Unit]
Description=securefl {role} {name} of {project}, run %i
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=0

[Service]
{common}ReadWritePaths={folder}
StateDirectory={stem}
StateDirectoryMode=0700
Environment=SECUREFL_STATE=%S/{stem} HOME=%S/{stem}
ExecStart={prefix}/.venv/bin/securefl {role} {folder}/{kit} --run %i
Restart=on-failure
RestartSec=5
# Not after its end (1), a refusal (2), or if a person must decide (5); 0 and 4, a pause, are no failures.
RestartPreventExitStatus=1 2 5
SuccessExitStatus=4
# A round may be finished first.
TimeoutStopSec=600

[Install]
WantedBy=multi-user.target
"""
_AGENT: Final = """\
# Written by securefl provision accept: the agent, which starts the processes of all runs.
[Unit]
Description=securefl agent {name} of {project}
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=0

[Service]
{common}ReadWritePaths={folder}
StateDirectory={stem}
StateDirectoryMode=0700
Environment=SECUREFL_STATE=%S/{stem} HOME=%S/{stem}
ExecStart={prefix}/.venv/bin/securefl agent {folder}/{kit}
Restart=on-failure
RestartSec=5
RestartPreventExitStatus=2
# The agent lets its processes leave: a server finishes its round first.
KillMode=mixed
TimeoutStopSec=600

[Install]
WantedBy=multi-user.target
"""
_BROKER: Final = """\
# Written by securefl provision accept.
[Unit]
Description=broker of {project}
After=network-online.target
Wants=network-online.target

[Service]
{common}StateDirectory={stem}
StateDirectoryMode=0700
ExecStart=/usr/sbin/mosquitto -c {folder}/mosquitto.conf
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=5

[Install]
WantedBy=multi-user.target
"""
_RECIPE: Final = """\
# Image of securefl, built in a copy of its repository: docker build -f {folder}/Containerfile -t securefl .
FROM docker.io/library/python:3.12-slim
COPY . /src
RUN pip install --no-cache-dir -c /src/constraints.txt '/src[learn]' && rm -r /src
USER 10001:10001
ENTRYPOINT ["securefl"]
"""
_COMPOSE: Final = """\
# {use} The folder belongs to user 10001 then.
services:
  {name}:
    image: securefl
    hostname: "{hostname}"
    restart: on-failure
    stop_grace_period: 10m
    init: true
    user: "10001:10001"
    read_only: true
    cap_drop: [ALL]
    security_opt: ["no-new-privileges:true"]
    tmpfs: [/tmp]
    environment:
      SECUREFL_STATE: /state
      SECUREFL_MACHINE: {project}-{name}
      HOME: /state
    working_dir: /kit
    volumes:
      - {folder}:/kit
      - state:/state
    entrypoint: [sh, -c]
    command:
      - |
        trap 'if [ "$$pid" ]; then kill -TERM $$pid; else stop=1; fi' TERM
        securefl {words} &
        pid=$$!
        [ -z "$$stop" ] || kill -TERM $$pid
        wait $$pid; code=$$?
        while kill -0 $$pid 2>/dev/null; do wait $$pid; code=$$?; done
        # It may have ended after a wait that the signal interrupted.
        [ $$code -le 128 ] || {{ wait $$pid; last=$$?; [ $$last = 127 ] || code=$$last; }}
        case $$code in {final}) echo "exit code $$code: no restart" >&2; exit 0;; esac
        exit $$code
volumes:
  state:
"""


def service_stem(project: str, name: str) -> str:
    """Return the name of a machine's service and of its state directory."""
    return f"securefl-{project}-{name}"


def member_services(
    folder: Path, *, project: str, name: str, role: str, prefix: str, host: str
) -> dict[str, str]:
    """Return units, Compose file and container recipe of a party, the server or the dealer, by file name.

    Args:
        folder: of the kit.
        project: its name.
        name: of the machine.
        role: its command.
        prefix: folder with the installation.
        host: host name of the machine; may be empty.
    """
    stem = service_stem(project, name)
    common = _COMMON.format(user=f"securefl-{name}", folder=folder)
    unit = _MEMBER.format(
        common=common, folder=folder, project=project, name=name, role=role, prefix=prefix, stem=stem, kit=KIT
    )
    agent = _AGENT.format(
        common=common, folder=folder, project=project, name=name, prefix=prefix, stem=stem, kit=KIT
    )
    if role == "observer":
        use = "RUN=ID docker compose up records the run ID."
        words, final = f"observer /kit/{KIT} --run ${{RUN:?set RUN to the id of the run}}", "1|2|4|5"
    else:
        use, words, final = "docker compose up -d starts the agent.", f"agent /kit/{KIT}", "2"
    compose = _COMPOSE.format(
        folder=folder, project=project, name=name, hostname=host or f"{project}-{name}", use=use, words=words,
        final=final,
    )  # fmt: skip
    return {
        f"{stem}@.service": unit,
        **({} if role == "observer" else {f"{stem}.service": agent}),
        "compose.yaml": compose,
        "Containerfile": _RECIPE.format(folder=folder),
    }


def broker_service(folder: Path, *, project: str, name: str) -> dict[str, str]:
    """Return the unit of a mosquitto broker by file name; it runs as the user ``mosquitto``."""
    stem = service_stem(project, name)
    common = _COMMON.format(user="mosquitto", folder=folder)
    return {f"{stem}.service": _BROKER.format(common=common, folder=folder, project=project, stem=stem)}
