"""Examples of Siconos: rows as they stand, a checkout's files, and that a wrong equation would be seen."""

from dataclasses import replace

import numpy as np
import pytest
import siconos


def test_rows_are_states_of_their_example():
    for example in (one() for one in siconos.EXAMPLES.values()):
        q, u = example.columns
        assert example.rows.shape[1] == 1 + len(q) + len(u) == 1 + len(example.start[0]) + len(example.start[1])
        assert np.all(np.diff(example.rows[:, 0]) > 0)


def write(folder, example, times):
    """A reference file of the free fall up to the first impact, with events twice."""
    file = folder / "examples" / "mechanics" / example.file
    file.parent.mkdir(parents=True)
    t = np.sort(np.append(times, times[3]))
    np.savetxt(file, np.column_stack([t, 1 + 10 * t - 5 * t**2, 10 - 10 * t, 0 * t]), header=f"{t.size} 4", comments="")


def test_a_checkout_is_compared_away_from_impacts(tmp_path):
    example = replace(siconos.ball(), text="0.055 0 0", h=2e-3, steps=10)
    # It strikes the ceiling after 51.3 ms: from there on the parabola that was written is none of its motion.
    write(tmp_path, example, np.linspace(0.0, 0.055, 56))
    away, all_of_it = (siconos.compare(one, tmp_path) for one in (example, replace(example, h=0.0)))
    assert away.status == 0
    assert max(*away.theirs, *away.own) < 1e-12
    assert all_of_it.theirs[1] > 10


@pytest.mark.studies
def test_smoke(capsys):
    found = siconos.main(["--smoke"])
    assert not any(one.status for one in found.values())
    assert max(found["ball"].theirs) < 1e-11
    assert found["friction oscillator"].theirs[0] < 2e-3
    assert found["slider crank"].theirs[0] < 1e-2
    assert "slider crank" in capsys.readouterr().out
