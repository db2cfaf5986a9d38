from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.unit.tools_cuda.conftest import FakeSmi
from tools.cuda.environment import (
    ROOT,
    code_digest,
    commit,
    cpus,
    describe,
    machine,
    mebibytes,
    query_gpu,
)


def test_rows_of_nvidia_smi(smi: FakeSmi) -> None:
    smi(gpu="NVIDIA H100 80GB HBM3, 580.65.06, 81559")
    assert query_gpu("gpu", "name,driver_version,memory.total") == [
        ["NVIDIA H100 80GB HBM3", "580.65.06", "81559"]
    ]


def test_the_machine_has_the_name_of_its_gpu(smi: FakeSmi) -> None:
    smi(gpu="NVIDIA H100 80GB HBM3")
    assert machine() == f"NVIDIA H100 80GB HBM3, {cpus()} processors"


def test_without_nvidia_smi_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert query_gpu("gpu", "name") == []
    assert machine() == f"no GPU, {cpus()} processors"


def test_a_failing_nvidia_smi_says_nothing(smi: FakeSmi) -> None:
    smi(gpu="NVIDIA-SMI has failed", code=9)
    assert query_gpu("gpu", "name") == []


def test_rows_of_another_form_are_left_out(smi: FakeSmi) -> None:
    smi(compute_apps="No running processes found\n4711, 512\n")
    assert query_gpu("compute-apps", "pid,used_memory") == [["4711", "512"]]


@pytest.mark.parametrize(
    ("cell", "size"), [("512", 512.0), ("[N/A]", None), ("[Insufficient Permissions]", None)]
)
def test_memory_may_be_unknown(cell: str, size: float | None) -> None:
    assert mebibytes(cell) == size


def test_the_environment_of_this_machine(smi: FakeSmi) -> None:
    smi(gpu="NVIDIA H100 80GB HBM3, 580.65.06, [N/A]")
    found = describe("cpu")
    assert found["versions"]["torch"] == torch.__version__
    assert (found["gpu"], found["driver"], found["gpu_mib"]) == ("NVIDIA H100 80GB HBM3", "580.65.06", None)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_is_refused_where_torch_finds_none() -> None:
    with pytest.raises(SystemExit, match="torch finds no CUDA device"):
        describe("cuda")


def test_the_digest_follows_the_sources(tmp_path: Path) -> None:
    file = tmp_path / "securefl" / "a.py"
    file.parent.mkdir()
    file.write_text("1")
    first = code_digest(tmp_path)
    (tmp_path / "docs.md").write_text("text")
    assert code_digest(tmp_path) == first
    file.write_text("2")
    assert code_digest(tmp_path) != first


def test_the_commit_is_marked_if_sources_differ(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=n", "-c", "user.email=e@example.org", *arguments],
            cwd=tmp_path,
            check=True,
        )

    (tmp_path / "securefl").mkdir()
    file = tmp_path / "securefl" / "a.py"
    file.write_text("1")
    assert commit(tmp_path) == ""
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    assert len(commit(tmp_path)) == 12
    file.write_text("2")
    assert commit(tmp_path).endswith("+")


def test_the_program_needs_the_standard_library_only() -> None:
    text = "import sys; from tools.cuda.__main__ import units, default_data_dir; from pathlib import Path\n"
    text += "units('cuda', Path('out'), None)\n"
    text += "print({'torch', 'numpy', 'msgspec', 'securefl', 'psutil', 'pytest'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
