"""Configuration of a broker with client certificates and access rules: mosquitto, and EMQX 5.

The files for mosquitto are run in tests. Those for EMQX follow its documents; only their format is checked.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Final

from securefl.runtime import transport

AUTHORITY: Final = "ca.pem"
CRL: Final = "revoked.pem"
ACL: Final = "securefl.acl"
CONFIGURATION: Final = "mosquitto.conf"
EMQX: Final = "emqx.conf"
EMQX_ACL: Final = "emqx-acl.conf"
_MOSQUITTO: Final = """\
# Broker of {project}, by securefl provision accept. After a new answer: systemctl reload {unit}
per_listener_settings false
persistence true
persistence_location {state}/
persistent_client_expiration 1d
max_queued_messages 0
max_queued_bytes 1073741824
max_inflight_messages 32
set_tcp_nodelay true
listener {port}
cafile {folder}/{authority}
certfile {folder}/{certificate}
keyfile {folder}/{key}
crlfile {folder}/{crl}
tls_version tlsv1.2
require_certificate true
use_identity_as_username true
allow_anonymous false
acl_file {folder}/{acl}
"""


def mosquitto_configuration(
    folder: Path, *, project: str, port: int, certificate: str, key: str, state: str, unit: str
) -> str:
    """Return ``mosquitto.conf``.

    Args:
        folder: of the kit.
        project: its name.
        port: of the listener.
        certificate: file with the broker's certificate, from the folder.
        key: file with its private key, from the folder.
        state: folder that the broker may write.
        unit: name of its service.
    """
    return _MOSQUITTO.format(
        folder=folder, project=project, port=port, certificate=certificate, key=key, state=state, unit=unit,
        authority=AUTHORITY, crl=CRL, acl=ACL,
    )  # fmt: skip


def emqx_configuration(folder: Path, *, port: int, certificate: str, key: str) -> str:
    """Return ``emqx.conf``, written as JSON, which is HOCON.

    EMQX takes no file of revoked certificates: :func:`emqx_access_rules` allows present names only, so that a
    former certificate of a present name works until it expires.
    """
    tls = {
        "cacertfile": f"{folder}/{AUTHORITY}",
        "certfile": f"{folder}/{certificate}",
        "keyfile": f"{folder}/{key}",
        "verify": "verify_peer",
        "fail_if_no_peer_cert": True,
        "versions": ["tlsv1.3", "tlsv1.2"],
    }
    return _json(
        {
            "listeners": {
                "ssl": {"default": {"bind": f"0.0.0.0:{port}", "ssl_options": tls}},
                "tcp": {"default": {"enable": False}},
                "ws": {"default": {"enable": False}},
                "wss": {"default": {"enable": False}},
            },
            "mqtt": {
                "peer_cert_as_username": "cn",
                "max_packet_size": "16MB",
                "max_mqueue_len": "infinity",
                "session_expiry_interval": "1d",
            },
            "retainer": {"enable": True},
            "authorization": {
                "no_match": "deny",
                "deny_action": "disconnect",
                "sources": [{"type": "file", "enable": True, "path": f"{folder}/{EMQX_ACL}"}],
            },
        }
    )


def emqx_access_rules(names: Collection[str]) -> str:
    """Return the access rules as Erlang terms of EMQX: those of mosquitto, for present machines only."""
    actions = {"read": "subscribe", "write": "publish", "readwrite": "all"}
    lines = ["%% Access rules of securefl for EMQX 5: present machines only."]
    for rule in transport.ACL_RULES:
        action, topic = actions[rule.access], rule.topic_filter.replace("%u", "${username}")
        users = sorted(names) if rule.user is None else [rule.user]
        lines += [f'{{allow, {{user, "{user}"}}, {action}, ["{topic}"]}}.' for user in users]
    lines.append("{deny, all}.")
    return "\n".join(lines) + "\n"


def _json(table: object) -> str:
    return json.dumps(table, indent=2) + "\n"
