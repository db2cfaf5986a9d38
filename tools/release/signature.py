"""Signatures of digests by an SSH key of a maintainer, with `ssh-keygen -Y`."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

from securefl.base.errors import ConfigError

from .build import command

NAMESPACE = "securefl-release"
"""Domain of the signature: a signature for another purpose does not verify."""


def sign(sums: Path, key: Path) -> Path:
    """Sign a file of digests; return the path of the signature.

    ``key`` is a private key, or the public half of a key that an agent or a hardware token holds.

    Raises:
        ConfigError: the key is missing, is readable by others, or ssh-keygen refuses it.
    """
    if not key.is_file():
        raise ConfigError(
            "--key", f"{key} is not a file", "name a private SSH key, or the .pub of a key in an agent"
        )
    others = stat.S_IMODE(key.stat().st_mode) & 0o077
    if others and key.suffix != ".pub":
        raise ConfigError("--key", f"{key} is readable by other users", f"chmod 600 {key}")
    path = sums.with_name(f"{sums.name}.sig")
    path.unlink(missing_ok=True)
    command(["ssh-keygen", "-Y", "sign", "-q", "-n", NAMESPACE, "-f", key.absolute(), sums.name], sums.parent)
    return path


def verify(sums: Path, signers: Path, signer: str) -> None:
    """Verify the signature beside a file of digests against the signers that a user trusts.

    Raises:
        ConfigError: the signature is missing or wrong, or is of another key.
    """
    signature = sums.with_name(f"{sums.name}.sig")
    if not signature.is_file():
        raise ConfigError(signature.name, "there is no signature", "sign the digests with --key")
    words = ["ssh-keygen", "-Y", "verify", "-q", "-n", NAMESPACE, "-f", str(signers), "-I", signer]
    done = subprocess.run(
        [*words, "-s", str(signature)], input=sums.read_bytes(), capture_output=True, check=False
    )
    if done.returncode:
        reason = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines() or ["refused"]
        raise ConfigError(signature.name, reason[-1], "do not install these files")


def allowed_signers(key: Path, signer: str) -> str:
    """Return the line of an allowed-signers file for a key: the public half, limited to this namespace."""
    public = key if key.suffix == ".pub" else key.with_name(f"{key.name}.pub")
    if not public.is_file():
        raise ConfigError("--key", f"{public} is missing", f"ssh-keygen -y -f {key} > {public}")
    kind, code, *_ = public.read_text(encoding="utf-8").split()
    return f'{signer} namespaces="{NAMESPACE}" {kind} {code}\n'
