"""The first bounce of a recording, and the flights on both sides of it."""

import numpy as np
import pytest

from diffcontact.scene.keys import Table
from diffcontact.scene.kinds import KINDS
from diffcontact.scene.measurements import Measurements
from diffcontact.scene.preparation import Rebound

GRAVITY = np.array([0.0, 0.0, -9.81])


def bounces(count=2, spacing=0.01):
    """Samples of a ball that falls from 0.4 m while it flies at 2 m/s along x, and leaves each bounce with 0.9."""
    times, rows, height, speed = np.arange(0.0, 1.6, spacing), [], 0.4, 0.0
    for t in times:
        rows.append([2 * t, 0.1, height])
        height, speed = height + speed * spacing - 0.5 * 9.81 * spacing**2, speed - 9.81 * spacing
        if height < 0 and speed < 0 and count:
            count, height, speed = count - 1, -height, -0.9 * speed
    return times, np.array(rows)


def prepared(times, rows, **options):
    columns = {name: 1e3 * column for name, column in zip("xyz", rows.T, strict=True)}
    rebound = Rebound(("x", "y", "z"), 1e-3, 2, options.pop("around", 20))
    return rebound(times, Measurements("track.csv", columns, "0"))[0]


def test_the_first_bounce_is_found_and_the_run_ends_before_the_second():
    times, rows = bounces()
    (first, second) = (int(np.argmin(rows[:50, 2])), 50 + int(np.argmin(rows[50:120, 2])))
    run = prepared(times, rows, around=1000)
    assert run.times[0] == 0.0
    assert run.times[-1] == times[second - 2]
    short = prepared(times, rows)
    np.testing.assert_array_equal(short.times, times[first - 20 : first + 21])
    # Millimetres and back: a rounding.
    np.testing.assert_allclose(short.values, rows[first - 20 : first + 21], rtol=1e-14)
    assert "of 160 samples are used" in short.notes["bounce"]


def test_each_bounce_near_the_ground_is_a_run_of_its_own():
    times, rows = (part[:110] for part in bounces(count=2))
    # What is thrown up by hand at 0.3 m comes down no further, and no lowest sample is near.
    hit = np.column_stack([2 * times, 0 * times, 0.3 + np.abs(times - 0.5)])
    columns = {name: np.concatenate([a, b]) for name, a, b in zip("xyz", rows.T, hit.T, strict=True)}
    measurements = Measurements("track.csv", columns, "0")
    clock = 0.01 * np.arange(2 * times.size)
    found = {
        near: Rebound(("x", "y", "z"), 1.0, 2, 20, each=True, near=near)(clock, measurements) for near in (0.1, np.inf)
    }
    assert len(found[0.1]) == 2
    # One more, and one where the records meet.
    assert len(found[np.inf]) >= 3
    assert found[0.1][0].times[-1] < found[0.1][1].times[-1]
    assert len({run.part for run in found[0.1]}) == 2


def test_flights_have_to_be_straight_where_that_is_asked():
    times = 0.01 * np.arange(60)
    straight = np.column_stack([times, 0 * times, np.abs(times - 0.3)])
    bent = straight + np.column_stack([0 * times, np.where(times > 0.4, (times - 0.4), 0), 0 * times])
    run = Rebound(("x", "y", "z"), 1.0, 2, 20, straight=1e-3)
    columns = [dict(zip("xyz", rows.T, strict=True)) for rows in (straight, bent)]
    assert len(run(times, Measurements("a.csv", columns[0], "0"))) == 1
    with pytest.raises(ValueError, match=r"off straight lines by preparation\.straight = 0\.001, expected a bounce"):
        run(times, Measurements("a.csv", columns[1], "0"))


def test_the_flight_before_it_gives_the_start_through_lost_samples():
    times, rows = bounces()
    rows[7] = np.nan
    run = prepared(times, rows, around=20)
    # Exact: the flight is a parabola, sampled without noise.
    begin = int(np.flatnonzero(times == run.times[0])[0])
    np.testing.assert_allclose(run.start["q0"], [2 * times[begin], 0.1, rows[begin, 2]], atol=1e-12)
    np.testing.assert_allclose(run.start["u0"], [2.0, 0.0, -9.81 * times[begin]], atol=1e-10)
    np.testing.assert_allclose(run.start["flight"][1], GRAVITY, atol=1e-8)


def test_a_flight_without_a_bounce_is_refused():
    with pytest.raises(ValueError, match=r"^track\.csv: column 'z' has no lowest sample .* expected a bounce$"):
        prepared(*bounces(count=0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"up": "w"}, "s.toml: preparation.up: 'w', expected one of the columns 'x', 'y', 'z'"),
        ({"around": 3}, "s.toml: preparation.around: 3, expected at least 8"),
        ({"arround": 30}, "s.toml: preparation.arround: unknown key; did you mean 'around'?"),
    ],
)
def test_wrong_keys_are_named(change, message):
    options = {"kind": "rebound", "columns": ["x", "y", "z"], "up": "z"} | change
    ready = ball(spin=True)
    with pytest.raises(ValueError) as refusal:
        Rebound.from_table(Table(options, "s.toml", ("preparation",)), ready)
    assert str(refusal.value) == message


def ball(**options):
    return KINDS["balls"](Table({"kind": "balls", "count": 1, "dimension": 3, "air": True} | options, "s.toml"))


def test_the_curve_of_a_flight_gives_the_spin_that_bends_it(rng):
    """w x v is known, so the part of w across v is: the least spin that bends the flight as much."""
    velocity, spin = rng.normal(size=3), 100 * rng.normal(size=3)
    known = {"gravity": GRAVITY, "drag": np.array(0.15), "magnus": np.array(0.003)}
    pull = -0.15 * np.linalg.norm(velocity) * velocity + 0.003 * np.cross(spin, velocity)
    found = ball(spin=True).derived["spin0"].value(np.stack([velocity, GRAVITY + pull]), known)
    along = velocity / np.linalg.norm(velocity)
    np.testing.assert_allclose(found, spin - (spin @ along) * along, rtol=1e-10)


def test_what_the_air_does_is_asked_for_where_it_is_there():
    assert {"drag", "magnus", "magnus_saturation"} <= ball(spin=True).quantities.keys()
    assert not {"magnus", "magnus_saturation"} & ball().quantities.keys()
    assert "drag" not in ball(air=False).quantities
