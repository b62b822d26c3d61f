"""Commands let numpy and scipy multiply by one thread, unless told otherwise."""

import subprocess
import sys

import pytest

from diffcontact.commands.threads import VARIABLES, numbers, products_by_one_thread

PROGRAM = """
from diffcontact.commands import threads
print(*threads.numbers())
threads.products_by_one_thread()
print(*threads.numbers())
"""


def threads(monkeypatch, **variables):
    """(before, after) in a process of its own, since the number is the process's."""
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    return [[int(number) for number in line.split()] for line in ran.stdout.splitlines()]


@pytest.mark.skipif(not numbers(), reason="numpy and scipy work with another library than OpenBLAS")
def test_products_take_one_thread_unless_the_environment_says_how_many(monkeypatch):
    before, after = threads(monkeypatch)
    assert after == [1] * len(before)
    before, after = threads(monkeypatch, OMP_NUM_THREADS="2")
    assert before == after


def test_another_library_is_left_alone(monkeypatch):
    monkeypatch.setattr("diffcontact.commands.threads._PREFIXES", ("no_such_library_",))
    products_by_one_thread()
    assert numbers() == []
