"""Make the files of a release in `dist/` from the commit, or nothing if a check fails (docs/release.md).

    python -m tools.release --builder .venv-release/bin/python --key ~/.ssh/securefl-release --signer NAME

Wheel and sdist are built twice in different folders and must be equal, byte for byte; both must hold the
files of the commit. The wheel is installed in a new environment and used from another folder. `dist/` gets
wheel, sdist, constraints, SBOM (CycloneDX), `SHA256SUMS` and, with `--key`, its signature and the public half
of the key. Nothing is uploaded or tagged.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from securefl.base.errors import ConfigError
from securefl.base.version import __version__

from .build import build, check_sdist, check_wheel, command, commit_time, digest, tracked
from .installed import install, try_out, try_tools
from .signature import allowed_signers, sign, verify

ROOT = Path(__file__).parents[2]
SUMS = "SHA256SUMS"
SIGNERS = "allowed_signers"


def main() -> int:
    """Parse the options, make the release, print one line for each step."""
    parser = argparse.ArgumentParser(description="Make the files of a release in dist/; nothing is uploaded.")
    parser.add_argument("--builder", type=Path, default=ROOT / ".venv-release" / "bin" / "python")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder of the files")
    parser.add_argument("--key", type=Path, help="SSH key that signs the digests")
    parser.add_argument("--signer", default="", help="name of the key's owner, as in an allowed_signers file")
    parser.add_argument("--skip-tools", action="store_true", help="do not install with uv and pipx")
    parser.add_argument("--skip-install", action="store_true", help="only build, compare and sign; no SBOM")
    options = parser.parse_args()
    try:
        make(options)
    except ConfigError as error:
        print(f"no release: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def make(options: argparse.Namespace) -> None:
    """Make and check all files in a temporary folder, then move them to ``--out``."""
    if not options.builder.is_file():
        raise ConfigError("--builder", f"{options.builder} is missing", "make .venv-release/.installed")
    if options.key and not options.signer:
        raise ConfigError("--signer", "is missing", "give the name of the key's owner")
    if command(["git", "status", "--porcelain", "--untracked-files=no"], ROOT).strip():
        raise ConfigError("git", "tracked files differ from the commit", "commit or stash them")
    commit = command(["git", "rev-parse", "HEAD"], ROOT).strip()
    out: Path = options.out.absolute()
    strangers = _strangers(out)
    if strangers:
        raise ConfigError(
            "--out", f"{out} has other files: {', '.join(strangers[:3])}", "name another folder"
        )
    with tempfile.TemporaryDirectory(prefix="securefl-release-") as temporary:
        folder = Path(temporary)
        ready = folder / "ready"
        ready.mkdir()
        for path in _files(options, commit, folder):
            shutil.copyfile(path, ready / path.name)
        _seal(options, ready)
        # Nothing of an older release stays beside the new files.
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(ready, out)
    print(f"{out}: {', '.join(sorted(path.name for path in out.iterdir()))}")


def _files(options: argparse.Namespace, commit: str, folder: Path) -> list[Path]:
    """Build, compare, install and try; return the files to publish."""
    builder = options.builder.absolute()
    first, second = (build(ROOT, commit, builder, folder / name) for name in ("a", "another-folder"))
    for one, other in zip(first, second, strict=True):
        if digest(one) != digest(other):
            raise ConfigError(
                one.name, "two builds differ", f"compare {digest(one)[:8]} and {digest(other)[:8]}"
            )
    print("built twice with the same digests")
    sdist, wheel = first
    files = tracked(ROOT, commit)
    check_wheel(wheel, files)
    check_sdist(sdist, files)
    print(f"complete: {len(files)} files of the commit")
    constraints = folder / f"securefl-{__version__}-constraints.txt"
    shutil.copyfile(ROOT / "constraints.txt", constraints)
    if options.skip_install:
        return [wheel, sdist, constraints]
    place = folder / "user"
    place.mkdir()
    python = install(builder, wheel, __version__, constraints, place)
    bill = folder / f"securefl-{__version__}.cdx.json"
    _write_bill(builder, python, commit_time(ROOT, commit), bill)
    print("installed in a new environment")
    for line in try_out(python, __version__, sdist, place):
        print(line)
    if not options.skip_tools:
        for line in try_tools(builder, wheel, constraints, place):
            print(line)
    return [wheel, sdist, constraints, bill]


def _write_bill(builder: Path, python: Path, seconds: int, path: Path) -> None:
    """Write the SBOM of the new environment: the package, its extras and all they require."""
    table = path.with_suffix(".toml")
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    # The tool reads name, version and dependencies of the root component from this table.
    table.write_text(text.replace('dynamic = ["version"]', f'version = "{__version__}"'), encoding="utf-8")
    words = [builder, "-m", "cyclonedx_py", "environment", "--output-reproducible", "--of", "JSON"]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(seconds)}
    command(
        [*words, "--mc-type", "library", "--pyproject", table, "-o", path, python], path.parent, environment
    )


def _seal(options: argparse.Namespace, folder: Path) -> None:
    """Write the digests, and sign and verify them if a key is given."""
    paths = sorted(folder.iterdir())
    sums = folder / SUMS
    sums.write_text("".join(f"{digest(path)}  {path.name}\n" for path in paths), encoding="utf-8")
    if options.key is None:
        print("not signed: no --key")
        return
    signers = folder / SIGNERS
    signers.write_text(allowed_signers(options.key, options.signer), encoding="utf-8")
    sign(sums, options.key)
    verify(sums, signers, options.signer)
    print(f"signed by {options.signer}")


def _strangers(out: Path) -> list[str]:
    """Names in a folder that no release has made."""
    if not out.exists():
        return []
    own = (SUMS, SIGNERS, "securefl-")
    return sorted(path.name for path in out.iterdir() if not path.name.startswith(own))


if __name__ == "__main__":
    sys.exit(main())
