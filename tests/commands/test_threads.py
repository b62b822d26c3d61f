"""Commands let numpy and scipy multiply by one thread, unless told otherwise."""

import subprocess
import sys

from diffcontact.commands.cli import THREADS

PROGRAM = """
import threadpoolctl
from diffcontact.commands import cli
cli._multiply_by_one_thread()
print(*(library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"))
"""


def threads(monkeypatch, **variables):
    """In a process of its own, since the number is the process's."""
    for variable in THREADS:
        monkeypatch.delenv(variable, raising=False)
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    return {int(number) for number in ran.stdout.split()}


def test_products_take_one_thread_unless_the_environment_says_how_many(monkeypatch):
    assert threads(monkeypatch) <= {1}
    assert threads(monkeypatch, OMP_NUM_THREADS="2") <= {2}
