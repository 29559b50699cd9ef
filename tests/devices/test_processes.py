"""Arrays that are sharded over the devices of two processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECONDS = 600
"""The longest that both processes may take, on a busy machine."""
ALONE = 20
"""How long a process may go on after the other has failed."""


FLAGS = "--xla_backend_optimization_level=0"
"""Programs are compiled in two thirds of the time. What moves is decided before."""


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        port: int = listener.getsockname()[1]
        return port


def wait_for(processes: list[subprocess.Popen[bytes]]) -> None:
    """Wait until all have ended, or one has failed and the others had time to, or time is up."""
    end = time.monotonic() + SECONDS
    failed = False
    while time.monotonic() < end:
        statuses = [process.poll() for process in processes]
        if None not in statuses:
            break
        if any(statuses) and not failed:
            failed, end = True, min(end, time.monotonic() + ALONE)
        time.sleep(0.1)


def test_two_processes_with_four_devices_each(tmp_path):
    coordinator = f"localhost:{free_port()}"
    flags = " ".join(filter(None, [os.environ.get("XLA_FLAGS"), FLAGS]))
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    outputs = [tmp_path / f"{number}.txt" for number in range(2)]
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for number, output in enumerate(outputs):
            command = [sys.executable, "-m", "tests.devices.worker", str(number), coordinator]
            with output.open("wb") as file:
                process = subprocess.Popen(
                    command,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, "PYTHONPATH": path, "XLA_FLAGS": flags},
                    cwd=ROOT,
                )
            processes.append(process)
        wait_for(processes)
    finally:
        # Where one has failed or hangs, the other waits for it.
        for process in processes:
            process.kill()
            process.wait()
    said = "\n".join(output.read_text(encoding="utf-8", errors="replace") for output in outputs)
    assert [process.returncode for process in processes] == [0, 0], said
    assert said.count(" functions, 0 failures") == 2, said
