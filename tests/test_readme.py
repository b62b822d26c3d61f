"""The README's Python, run as it is printed."""

import re
import textwrap
from pathlib import Path

import jax
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]


def blocks():
    """The indented blocks of the chapter on Python, in order, without the shell's."""
    chapter = (ROOT / "README.md").read_text().split("## From Python")[1].split("\n## ")[0]
    found = re.findall(r"(?:^    .*\n|^\n(?=    ))+", chapter, flags=re.MULTILINE)
    return [textwrap.dedent(block) for block in found if ".venv/bin/python" not in block]


@pytest.mark.parametrize("double", [pytest.param(True, marks=pytest.mark.slow), False])
def test_the_lines_run_in_both_precisions(double, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    with jax.numpy_rank_promotion("allow"), jax.enable_x64(double):
        for block in blocks():
            # Fits and intervals take minutes to compile; in single precision the rest will do.
            if double or ("measured" not in block and "result" not in block):
                run(block, names)
    printed = capsys.readouterr().out
    assert names["motion"].q.dtype == ("float64" if double else "float32")
    assert "verdict: the derivative is right" in printed
    # The balls meet after 0.32 s and exchange their places.
    np.testing.assert_allclose(names["motion"].q[-1], [0.32, 1.2], atol=1e-5)
    assert names["s"].dq["mass"].shape == (11, 2, 2)
    assert names["ends"].shape == (1000, 2)
    assert (tmp_path / "out" / "runs.h5").exists()
    assert names["shaken"].surfaces.count == 100
    np.testing.assert_allclose(names["rolls"].u[-1, 0], 5 / 7, rtol=1e-5)
    if double:
        # 14 samples behind the impact, noise 1e-3 m, a lever of up to 0.7 m / 2.
        np.testing.assert_allclose(names["result"].params["restitution"], 0.7, atol=5e-3)


def run(block, names):
    """What needs an extra that is not installed ends its block."""
    try:
        exec(block, names)
    except ImportError as error:
        if "posterior" not in str(error):
            raise
