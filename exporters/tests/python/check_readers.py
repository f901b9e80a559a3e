"""Loads a Chrome JSON export with the parser of torch-tb-profiler and with trace-lanefix.

usage: check_readers.py EXPORT.json TRUTH.jsonl
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import truth

try:
    from torch_tb_profiler.profiler.data import RunProfileData
except ImportError as missing:
    truth.skip(f"{missing}; pip install -r requirements.txt")


def tensorboard(path, kernels):
    with tempfile.TemporaryDirectory() as folder:
        profile = RunProfileData.parse("worker", "span", path, folder)
    count = int(profile.kernel_stat["count"].sum())
    total = float(profile.kernel_stat["sum"].sum())
    expected = sum(row["end"] - row["start"] for row in kernels) / 1000
    assert count == len(kernels), f"torch-tb-profiler: {count} kernels, expected {len(kernels)}"
    assert abs(total - expected) < 0.002 * len(kernels) + 0.001, f"{total} us, expected {expected}"
    print(f"torch-tb-profiler: {count} kernels, {total:.3f} us, devices {profile.used_devices}")


def lanefix(path):
    command = shutil.which("trace-lanefix") or str(Path(sys.executable).parent / "trace-lanefix")
    if not Path(command).exists():
        truth.skip("trace-lanefix is not installed")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [command, path, f"{folder}/out.json"], capture_output=True, text=True, timeout=300, check=False
        )
    said = (done.stdout + done.stderr).strip()
    print(f"trace-lanefix: {said}")
    assert done.returncode == 0, said
    # Nothing was moved to make it viewable.
    assert re.search(r"\bsnapped 0\b", said) and re.search(r"\b0 new lanes\b", said), said


def main(path, truth_path):
    _, rows = truth.load(truth_path)
    tensorboard(path, truth.of(rows, "dispatch"))
    lanefix(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
