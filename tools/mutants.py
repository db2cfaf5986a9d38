"""Mutants of what protects the parties: each breaks one line on purpose, and its tests must notice.

The mutants are data: ``tests/mutants/<area>.toml``. Each is applied in a copy of the tree, never in the
checkout, and its tests run there; before that all of these tests pass unmutated. A mutant is

- killed: a test fails, or runs into the time limit (told apart in the report);
- survived: all its tests pass. The command fails: a test is missing, or the line is not needed;
- equivalent: argued in place that no test can tell it from the original. It runs all the same and must
  survive;
- broken: nothing was collected or imported, which proves nothing. The command fails;
- stale: what it searches for does not occur exactly once. The command fails.

``python tools/mutants.py`` runs all; ``--only WORD`` those whose name or area contains it; ``--changed
[BASE]`` those whose file, tests or data differ from a commit; ``--write PAGE`` writes the table of a run of
all. Each run forks from one process that has imported the libraries, so a mutant costs little more than its
tests.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
DATA = Path("tests") / "mutants"
FIELDS = frozenset({"name", "file", "search", "replace", "tests", "why"})
LIBRARIES = ("pytest", "hypothesis", "numpy", "scipy.stats", "cryptography", "msgspec", "typer", "torch")
OPTIONS = ("-q", "--tb=no", "-rfE", "-p", "no:cacheprovider")
PASSED, FAILED = 0, 1
ELSEWHERE = 70
"""Exit code of a run that did not test the copy."""
OK = ("killed", "timeout", "equivalent")
"""Results that a mutant may have."""


@dataclass(frozen=True)
class Mutant:
    """One broken line: in ``file``, ``search`` is replaced by ``replace``, and one of ``tests`` must fail."""

    area: str
    name: str
    file: str
    search: str
    replace: str
    tests: tuple[str, ...]
    why: str
    equivalent: str = ""
    """Why no test can tell it from the original; empty where one must."""

    def applied(self, text: str) -> str:
        """``text`` with the mutation.

        Raises:
            ValueError: the text to replace does not occur exactly once.
        """
        found = text.count(self.search)
        if found != 1:
            raise ValueError(
                f"{self.name}: the text to replace occurs {found} times in {self.file}, not once"
            )
        return text.replace(self.search, self.replace)


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant; ``by`` is the test that failed, or what went wrong."""

    mutant: Mutant
    result: str
    by: str
    seconds: float


@dataclass
class Job:
    """A run of tests in a copy of the tree, in a process group of its own."""

    tree: Path
    log: Path
    pid: int
    began: float

    def output(self) -> str:
        """Return the output of pytest."""
        return self.log.read_text(errors="replace")


def read_mutants(root: Path = ROOT) -> tuple[Mutant, ...]:
    """All mutants, by area and in the order of their files.

    Raises:
        ValueError: a field is missing or unknown, or a name occurs twice.
    """
    mutants: list[Mutant] = []
    for path in sorted((root / DATA).glob("*.toml")):
        for entry in tomllib.loads(path.read_text())["mutant"]:
            if entry.keys() - {"equivalent"} != FIELDS:
                wrong = sorted((entry.keys() - {"equivalent"}) ^ FIELDS)
                raise ValueError(f"{path.name}: {entry.get('name')}: missing or unknown: {', '.join(wrong)}")
            mutants.append(Mutant(path.stem, **{**entry, "tests": tuple(entry["tests"])}))
    twice = sorted(name for name, count in Counter(one.name for one in mutants).items() if count > 1)
    if twice:
        raise ValueError(f"names of more than one mutant: {', '.join(twice)}")
    return tuple(mutants)


def changed_since(base: str) -> tuple[str, frozenset[str]]:
    """Return the commit that is compared with, and the files that differ from it, untracked ones included."""
    bases = [one for one in (base, "origin/main", "HEAD~1") if one and set(one) != {"0"}]
    for one in bases:
        found = _git("merge-base", one, "HEAD", check=False)
        if found:
            names = _git("diff", "--name-only", found[0])
            return found[0], frozenset((*names, *_git("ls-files", "--others", "--exclude-standard")))
    raise SystemExit(f"no commit to compare with: tried {', '.join(bases)}; fetch the history, or name one")


def touched(mutant: Mutant, files: Iterable[str]) -> bool:
    """Whether the mutant's file, one of its tests or its data is among ``files``."""
    own = {mutant.file, str(DATA / f"{mutant.area}.toml"), *(test.split("::")[0] for test in mutant.tests)}
    return any(name in own or any(name.startswith(f"{one}/") for one in own) for name in files)


def run_all(mutants: Sequence[Mutant], workers: int, limit: float) -> tuple[Outcome, ...]:
    """Check the unmutated tree, then run every mutant.

    Raises:
        SystemExit: a test fails without any mutation.
    """
    for name in LIBRARIES:
        with suppress(ImportError):
            importlib.import_module(name)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trees = [Path(folder).resolve() / f"tree{k}" for k in range(workers)]
        _copy_checkout(trees[0])
        _check_unmutated(trees[0], mutants, workers, limit)
        for tree in trees[1:]:
            # With the bytecode that the check has left.
            shutil.copytree(trees[0], tree, symlinks=True)
        done: list[Outcome] = []

        def finish(mutant: Mutant) -> Callable[[Job, int | None, float], None]:
            def finished(job: Job, code: int | None, seconds: float) -> None:
                _restore(job.tree, mutant)
                done.append(_outcome(mutant, job, code, seconds))
                _tell(done[-1], len(done), len(mutants))

            return finished

        def begin(mutant: Mutant) -> Callable[[Path], Job | None]:
            def started(tree: Path) -> Job | None:
                try:
                    _mutate(tree, mutant)
                except (ValueError, OSError) as error:
                    done.append(Outcome(mutant, "stale", str(error), 0.0))
                    _tell(done[-1], len(done), len(mutants))
                    return None
                return _fork(tree, ("-x", *mutant.tests), keep_bytecode=False)

            return started

        _schedule([(begin(one), finish(one)) for one in mutants], trees, limit)
    order = {one.name: at for at, one in enumerate(mutants)}
    return tuple(sorted(done, key=lambda one: order[one.mutant.name]))


def page(outcomes: Sequence[Outcome]) -> str:
    """Return the page of a run of all mutants."""
    areas = sorted({one.mutant.area for one in outcomes})
    results = Counter(one.result for one in outcomes)
    lines = [
        "# Mutants",
        "",
        "What protects the parties, broken on purpose, one line at a time, and the test that notices. Made",
        "by `make mutants`, which fails where one survives unexplained;",
        "[contributing](../../CONTRIBUTING.md#mutants) says how a mutant is written.",
        "",
        f"{len(outcomes)} mutants: {results['killed'] + results['timeout']} killed"
        f" ({results['timeout']} of them by running into the time limit), {results['equivalent']} equivalent,"
        f" {len(outcomes) - sum(results[one] for one in OK)} unexplained.",
        "",
        "| area | mutants | killed | equivalent |",
        "|---|---:|---:|---:|",
    ]
    for area in areas:
        own = Counter(one.result for one in outcomes if one.mutant.area == area)
        lines.append(
            f"| [{area}](#{area}) | {own.total()} | {own['killed'] + own['timeout']} | {own['equivalent']} |"
        )
    for area in areas:
        about = (ROOT / DATA / f"{area}.toml").read_text().split("\n", 1)[0].removeprefix("# ")
        lines += [
            "",
            f"## {area}",
            "",
            about,
            "",
            "| mutant | module | why it matters | noticed by |",
            "|---|---|---|---|",
        ]
        lines += [_row(one) for one in outcomes if one.mutant.area == area]
    return "\n".join(lines) + "\n"


def _row(one: Outcome) -> str:
    mutant = one.mutant
    module = mutant.file.removeprefix("securefl/").removesuffix(".py")
    if one.result == "equivalent":
        by = f"nothing can: {mutant.equivalent}"
    elif one.result == "killed":
        by = f"`{one.by.split('::')[0].rsplit('/', 1)[-1]}`: `{one.by.split('::', 1)[-1].split('[')[0]}`"
    else:
        by = f"{one.result}: {one.by}"
    return f"| {mutant.name} | `{module}` | {mutant.why} | {by} |".replace("\n", " ")


def _git(*words: str, check: bool = True) -> list[str]:
    done = subprocess.run(("git", *words), cwd=ROOT, capture_output=True, text=True, check=check)
    return done.stdout.splitlines() if done.returncode == 0 else []


def _copy_checkout(tree: Path) -> None:
    for name in _git("ls-files", "--cached", "--others", "--exclude-standard"):
        source = ROOT / name
        if source.is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, tree / name)


def _check_unmutated(tree: Path, mutants: Sequence[Mutant], workers: int, limit: float) -> None:
    """Run all named tests once; this leaves the bytecode of what they import."""
    whole = {test for one in mutants for test in one.tests if "::" not in test}
    tests = sorted(whole | {t for one in mutants for t in one.tests if t.split("::")[0] not in whole})
    by_file: dict[str, list[str]] = {}
    for test in tests:
        by_file.setdefault(test.split("::")[0], []).append(test)
    groups = list(by_file.values())
    shares = [
        [test for group in groups[k::workers] for test in group] for k in range(min(workers, len(groups)))
    ]
    print(f"{len(tests)} tests or files without any mutation", flush=True)
    wrong: list[str] = []

    def begin(share: Sequence[str]) -> Callable[[Path], Job]:
        return lambda where: _fork(where, share, keep_bytecode=True)

    def finished(job: Job, code: int | None, _seconds: float) -> None:
        if code != PASSED:
            wrong.append(f"exit code {code}\n{job.output()[-4000:]}")

    _schedule([(begin(share), finished) for share in shares], [tree] * workers, 10 * limit)
    if wrong:
        raise SystemExit("tests of mutants fail without any mutation:\n" + "\n".join(wrong))


def _schedule(
    work: Iterable[tuple[Callable[[Path], Job | None], Callable[[Job, int | None, float], None]]],
    trees: Sequence[Path],
    limit: float,
) -> None:
    """Run jobs, one at a time in each of ``trees``; after ``limit`` seconds a job ends without a code."""
    queue, free, running = list(work)[::-1], list(trees), dict[int, tuple[Job, Callable[..., None]]]()
    try:
        while queue or running:
            while queue and free:
                begin, finished = queue.pop()
                tree = free.pop()
                job = begin(tree)
                if job is None:
                    free.append(tree)
                else:
                    running[job.pid] = job, finished
            ended: list[tuple[int, int | None]] = []
            for pid, (job, _) in running.items():
                found, status = os.waitpid(pid, os.WNOHANG)
                if found:
                    ended.append((pid, os.waitstatus_to_exitcode(status)))
                elif time.monotonic() - job.began > limit:
                    _kill(pid)
                    os.waitpid(pid, 0)
                    ended.append((pid, None))
            for pid, code in ended:
                job, finished = running.pop(pid)
                _kill(pid)
                finished(job, code, time.monotonic() - job.began)
                job.log.unlink()
                free.append(job.tree)
            if not ended:
                time.sleep(0.02)
    finally:
        for pid in running:
            _kill(pid)


def _fork(tree: Path, arguments: Sequence[str], *, keep_bytecode: bool) -> Job:
    handle, name = tempfile.mkstemp(dir=tree.parent, suffix=".log")
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = ELSEWHERE
        try:
            code = _run_tests(tree, handle, arguments, keep_bytecode=keep_bytecode)
        finally:
            os._exit(code)
    os.close(handle)
    with suppress(ProcessLookupError, PermissionError):
        os.setpgid(pid, pid)
    return Job(tree, Path(name), pid, time.monotonic())


def _run_tests(tree: Path, handle: int, arguments: Sequence[str], *, keep_bytecode: bool) -> int:
    """Return the tests, in the forked process: nothing but ``tree`` is importable under our names."""
    os.setpgid(0, 0)
    for stream in (1, 2):
        os.dup2(handle, stream)
    os.chdir(tree)
    sys.path[0] = str(tree)
    os.environ["PYTHONPATH"] = str(tree)
    sys.dont_write_bytecode = not keep_bytecode
    os.environ["PYTHONDONTWRITEBYTECODE"] = "" if keep_bytecode else "1"
    pytest = importlib.import_module("pytest")
    code = int(pytest.main([*OPTIONS, f"--rootdir={tree}", *arguments]))
    sys.stdout.flush()
    loaded = sys.modules.get("securefl")
    if loaded is not None and not str(loaded.__file__).startswith(f"{tree}{os.sep}"):
        return ELSEWHERE
    return code


def _mutate(tree: Path, mutant: Mutant) -> None:
    path = tree / mutant.file
    mutated, stamp = mutant.applied(path.read_text()), path.stat().st_mtime
    path.write_text(mutated)
    # Bytecode is taken for the source's by time, to the second, and size.
    os.utime(path, (stamp + 7, stamp + 7))


def _restore(tree: Path, mutant: Mutant) -> None:
    shutil.copy2(ROOT / mutant.file, tree / mutant.file)


def _outcome(mutant: Mutant, job: Job, code: int | None, seconds: float) -> Outcome:
    output = job.output()
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    if code is None:
        result, by = "timeout", f"no end after {seconds:.0f} s"
    elif code == FAILED and failed and "::" in failed[0]:
        result, by = "killed", failed[0]
    elif code == PASSED:
        result, by = ("equivalent", "") if mutant.equivalent else ("survived", "all its tests pass")
    else:
        result, by = "broken", f"exit code {code}: {output.strip().splitlines()[-1:]}"
    if mutant.equivalent and result in {"killed", "timeout"}:
        result = "not equivalent"
    return Outcome(mutant, result, by, seconds)


def _tell(one: Outcome, count: int, total: int) -> None:
    mark, name = "  " if one.result in OK else "! ", f"{one.mutant.area}/{one.mutant.name}"
    print(f"{mark}{count:3}/{total} {one.result:10} {one.seconds:5.1f} s  {name}  {one.by}", flush=True)


def _kill(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def main() -> int:
    """Run what is asked for; exit code 1 where a mutant is neither killed nor argued."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=(), metavar="WORD", help="part of a name or an area")
    parser.add_argument("--changed", nargs="?", const="", metavar="BASE", help="origin/main unless given")
    parser.add_argument("--workers", type=int, default=2, help="mutants at a time")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds for the tests of one mutant")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="write the table of a run of all mutants")
    options = parser.parse_args()
    mutants = every = read_mutants()
    if options.changed is not None:
        base, files = changed_since(options.changed)
        mutants = tuple(one for one in mutants if touched(one, files))
        print(f"{len(mutants)} of {len(every)} mutants are about what has changed since {base[:12]}")
    if options.only:
        mutants = tuple(m for m in mutants if any(word in f"{m.area}/{m.name}" for word in options.only))
    if not mutants:
        print("no mutant to run")
        return 0 if options.changed is not None else 2
    if options.write and mutants != every:
        parser.error("--write takes a run of all mutants: leave out --only and --changed")
    began = time.monotonic()
    outcomes = run_all(mutants, options.workers, options.timeout)
    wrong = [one for one in outcomes if one.result not in OK]
    counts = ", ".join(f"{n} {word}" for word, n in sorted(Counter(one.result for one in outcomes).items()))
    print(f"{len(outcomes)} mutants in {time.monotonic() - began:.0f} s: {counts}")
    for one in wrong:
        print(f"{one.result}: {one.mutant.area}/{one.mutant.name} in {one.mutant.file}: {one.by}")
    if options.write:
        options.write.write_text(page(outcomes))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
