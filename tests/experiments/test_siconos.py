"""Examples of Siconos: rows as they stand, a checkout's files, and that a wrong equation would be seen."""

from dataclasses import replace

import numpy as np
import pytest
import siconos


def test_rows_are_states_of_their_example():
    for example in (one() for one in siconos.EXAMPLES.values()):
        q, u = example.columns
        assert len(q) == len(u) <= len(example.start[0]) == len(example.start[1])
        assert bool(example.file) == isinstance(example.text, str)
        if example.file:
            assert example.rows.shape[1] == 1 + len(q) + len(u)
            assert np.all(np.diff(example.rows[:, 0]) > 0)


def test_blocks_of_the_second_integration_have_their_closed_forms():
    rock, fall = (one().rows for one in (siconos.rocking_block, siconos.falling_block))
    start, slender, pace = 0.6 * np.arctan(0.25), np.arctan(0.25), 3 * 9.81 / (2 * np.hypot(0.2, 0.8))
    # Energy over the height of the pivot, of which each impact keeps r^2.
    left = rock[:, 6] ** 2 / 2 + pace * (np.cos(slender - np.abs(rock[:, 3])) - np.cos(slender))
    kept = (1 - 1.5 * np.sin(slender) ** 2) ** 2
    impacts = np.log(left / (pace * (np.cos(slender - start) - np.cos(slender)))) / np.log(kept)
    np.testing.assert_allclose(impacts, np.round(impacts), atol=1e-8)
    assert round(impacts[-1]) == 7
    # The other one has no friction, and loses energy in impacts only.
    np.testing.assert_allclose(fall[:, 4], 0.0, atol=1e-13)
    energy = (fall[:, 4] ** 2 + fall[:, 5] ** 2 + 1.25 / 12 * fall[:, 6] ** 2) / 2 + 9.81 * fall[:, 2]
    assert np.all(np.diff(energy) < 1e-10)
    assert energy[-1] < energy[0] - 0.1


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
