"""Free elements, ties, an uncertain scale, measured angles: what the fit is given, and that it finds the truth."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest
from tables import cases

from diffcontact.identify import Interval, Normal, Positive
from diffcontact.scene import read_study
from diffcontact.scene.parameters import free_elements

# Two balls on a line; the second rests. m1 v1 = m1 u1 + m2 u2, u2 - u1 = e v1.
SCENE = """\
[system]
kind = "balls"
count = 2
dimension = 1
[data]
time = "t"
time_unit = "s"
noise = { value = 1, unit = "mm" }
[preparation]
kind = "coordinates"
columns = ["a", "b"]
unit = "mm"
[parameters]
mass = { value = [0.25, 0.2], unit = "kg", free = [true, false], bounds = [[0.1, 1], [0.1, 3]] }
radius = { value = [50, 40], unit = "mm", free = false }
gravity = { value = 0, free = false }
restitution = { value = 0.5 }
q0 = { value = "from data", unit = "mm", per_run = true }
u0 = { value = "from data", unit = "mm/s", per_run = true, free = [true, false] }
[ties]
"radius[1]" = "0.6 * radius[0]"
"""
VALUELESS = SCENE.replace('radius = { value = [50, 40], unit = "mm", free = false }', "radius = { free = false }")
VALUELESS = VALUELESS.replace('"radius[1]" = "0.6 * radius[0]"', 'radius = "0.1 * restitution"')
TIMES = np.linspace(0.0, 2.0, 81)
MASS, RESTITUTION = np.array([0.3, 0.2]), 0.8


def collision(speed):
    """Positions [mm]: radii 50 and 30 mm, contact at a distance of 80 mm."""
    first = -300 + speed * TIMES
    at = (300 - 80) / speed
    u1 = speed * (MASS[0] - RESTITUTION * MASS[1]) / MASS.sum()
    u2 = u1 + RESTITUTION * speed
    since = np.maximum(TIMES - at, 0.0)
    return np.stack([np.minimum(first, -80) + u1 * since, u2 * since], axis=1)


def write(folder, scene=SCENE, speeds=(300.0, 400.0), columns=collision, header="t,a,b"):
    (folder / "two.toml").write_text(scene)
    files = []
    for i, speed in enumerate(speeds):
        files.append(folder / f"{i}.csv")
        table = [",".join(map(repr, map(float, row))) for row in np.column_stack([TIMES, columns(speed)])]
        files[-1].write_text("\n".join([header, *table]) + "\n")
    return folder / "two.toml", files


def test_a_fit_gets_the_free_elements_one_by_one(tmp_path):
    study = read_study(*write(tmp_path))
    given = free_elements(study.start, study.scene.parameters, study.scene.ties)
    assert list(given.free) == ["mass[0]", "restitution", "q0", "u0[:,0]"]
    assert given.free["mass[0]"] == Interval(0.1, 1.0)
    np.testing.assert_allclose(given.params["u0[:,0]"], [0.3, 0.4], rtol=1e-9)
    np.testing.assert_allclose(study.start["radius"], [0.05, 0.03], rtol=1e-12)
    run = {name: value[0] if name in given.per_run else value for name, value in given.params.items()}
    moved = {**run, "mass[0]": 0.7, "u0[:,0]": 5.0, "radius": np.array([0.1, 9.0])}
    tied = jax.jit(lambda p: [given.tied[name](p) for name in ("mass", "u0", "radius")])(moved)
    np.testing.assert_allclose(tied, [[0.7, 0.2], [5.0, study.start["u0"][0, 1]], [0.1, 0.06]])


def test_what_follows_in_all_elements_needs_no_value(tmp_path):
    scene, files = write(tmp_path, VALUELESS)
    study = read_study(scene, files)
    np.testing.assert_allclose(study.start["radius"], [0.05, 0.05])
    given = free_elements(study.start, study.scene.parameters, study.scene.ties)
    tied = jax.jit(given.tied["radius"])({**given.params, "restitution": 0.7})
    np.testing.assert_allclose(tied, [0.07, 0.07])


def tied_masses(tie, bounds):
    free = "free = [true, false], bounds = [[0.1, 1], [0.1, 3]]"
    return SCENE.replace(free, f"bounds = {bounds}") + f'"mass[1]" = "{tie}"\n'


@pytest.mark.parametrize(
    ("tie", "bounds", "expected"),
    [
        # 0.2 kg <= 0.8 m <= 0.24 kg is the narrower one at either end, at one, at none.
        ("0.8 * mass[0]", "[[0.1, 1], [0.16, 0.24]]", (0.2, 0.3)),
        ("0.8 * mass[0]", "[[0.22, 0.28], [0.16, 0.24]]", (0.22, 0.28)),
        ("2 * mass[0]", "[0.1, 1]", (0.1, 0.5)),
    ],
)
def test_bounds_of_what_follows_bound_what_it_follows_from(tmp_path, tie, bounds, expected):
    study = read_study(*write(tmp_path, tied_masses(tie, bounds)))
    found = free_elements(study.start, study.scene.parameters, study.scene.ties).free["mass[0]"]
    assert (found.low, found.high) == pytest.approx(expected, rel=1e-12)


def test_negative_factors_turn_bounds_round(tmp_path):
    scene = SCENE.replace(
        "per_run = true, free = [true, false] }", "per_run = true, bounds = [[-5e3, 5e3], [-50, 1e3]] }"
    )
    study = read_study(*write(tmp_path, scene + '"u0[1]" = "-0.1 * u0[0]"\n'))
    found = free_elements(study.start, study.scene.parameters, study.scene.ties).free["u0[:,0]"]
    assert (found.low, found.high) == pytest.approx((-5.0, 0.5), rel=1e-12)  # m/s


def changed(old, new):
    assert SCENE.count(old) == 1
    return SCENE.replace(old, new)


TIE = '"radius[1]" = "0.6 * radius[0]"'


@cases(
    "old new message",
    r"""
    free = [true, false], b | free = [true], b | mass.free: [True], expected true or false, or 2 of
    0.5 } | 0.5, free = [true] } | restitution.free: [True], expected true or false, or nothing else
    0.5 } | 0.5, prior = { mean = [1], sigma = 1 } } | restitution.prior.mean: [1.0], expected a number
    [[0.1, 1], [0.1, 3]] | [[0.1, 1]] | mass.bounds: [[0.1, 1.0]], expected [low, high], or that for
    [[0.1, 1], [0.1, 3]] | [[1, 0.1], [0.1, 3]] | mass.bounds: [[1.0, 0.1], [0.1, 3.0]] are the wrong
    [[0.1, 1], [0.1, 3]] | [[0.3, 1], [0.1, 3]] | mass.value: the start [0.25, 0.2] is outside its
    "0.6 * radius[0]" | "radius" | ties.radius[1]: 1 elements follow from 2, expected one or as many
    "radius[1]" = "0.6 * | "radius[2]" = "0.6 * | ties.radius[2]: element [2] of radius, whose shape is (2,)
    "0.6 * radius[0]" | "radii[0]" | ties.radius[1]: no parameter 'radii'; did you mean 'radius'
    "0.6 * radius[0]" | "radius[0] + 1" | ties.radius[1]: 'radius[0] + 1', expected a tie like
    "0.6 * radius[0]" | "1.2.3 * mass[0]" | ties.radius[1]: '1.2.3' is not a number, in '1.2
    "0.6 * radius[0]" | "1e999 * mass[0]" | ties.radius[1]: '1e999', expected 0 or a size
    "0.6 * radius[0]" | "u0[0]" | ties.radius[1]: u0 differs from run to run, expected radius with per_
    "0.6 * radius[0]" | "0.6 * radius[0]"\n"radius[0]" = "radius[1]" | ties.radius: follows from element 0 of radius
    """,
)
def test_bad_elements_and_ties_are_named(tmp_path, old, new, message):
    with pytest.raises(ValueError) as caught:
        read_study(*write(tmp_path, changed(old, new)))
    assert f"two.toml: {message}" in str(caught.value).replace("parameters.", "")


@cases(
    "old known follows message",
    """
    0.5 } | 0.5, prior = { mean = 0.5, sigma = 0.1 } } | restitution = "2 * mass[1]" | restitution: its prior
    0.5 } | 0.5, bounds = [0.4, 0.6] } | restitution = "2 * mass[1]" | restitution: its bounds
    bounds = [[0.1, 1], [0.1, 3]] | prior = { mean = 0.5, sigma = 1 } | "mass[0]" = "2 * restitution" | mass: its prior
    """,
)
def test_what_is_known_of_a_parameter_is_not_lost_by_a_tie(tmp_path, old, known, follows, message):
    """The second mass is held, so that with the first one all of them follow."""
    name, lost = message.split(": its ")
    told = rf"two\.toml: ties\.{name}: follows wherever it is free, so its {lost} would not count; expected no {lost}"
    with pytest.raises(ValueError, match=told):
        read_study(*write(tmp_path, changed(old, known).replace(TIE, follows)))


def test_what_is_known_of_a_parameter_holds_for_the_elements_that_do_not_follow(tmp_path):
    scene = changed("free = [true, false], bounds = [[0.1, 1], [0.1, 3]]", "prior = { mean = 0.3, sigma = 0.1 }")
    study = read_study(*write(tmp_path, scene.replace(TIE, '"mass[1]" = "0.8 * mass[0]"')))
    given = free_elements(study.start, study.scene.parameters, study.scene.ties)
    assert given.priors == {"mass[0]": Normal(0.3, 0.1)}


FILM = """\
[system]
kind = "balls"
count = 1
dimension = 1
box = [0, inf]
[data]
rate = 40
scale = { value = 2.1, sigma = 0.2, unit = "mm/px" }
noise = { value = 0.25, unit = "px" }
window = [0, 1e9]
[preparation]
kind = "coordinates"
columns = ["y"]
unit = "px"
[parameters]
mass = { value = 1, free = false }
radius = { value = 20, unit = "mm", free = false }
gravity = { value = -9.81, free = false }
restitution = { value = 0.6 }
q0 = { value = "from data", unit = "px" }
u0 = { value = "from data", unit = "px/frame" }
"""


def dropped(_):
    """A ball of 20 mm dropped from 1.02 m, e = 0.8, at 2 mm per pixel; its centre in px."""
    fall = np.sqrt(2 * 1.0 / 9.81)
    since = TIMES - fall
    speed = 0.8 * 9.81 * fall
    return np.where(since < 0, 1.02 - 4.905 * TIMES**2, 0.02 + speed * since - 4.905 * since**2)[:, None] / 2e-3


@pytest.mark.full
def test_a_known_gravity_measures_the_scale_of_a_film(tmp_path):
    scene, files = write(tmp_path, FILM.replace("1e9", "20"), [0.0], dropped, "t,y")
    study = read_study(scene, files)
    # 20 frames of 1/40 s; the bounce is after 0.452 s.
    assert study.runs[0].times.size == 21
    np.testing.assert_allclose(study.start["q0"], 2.1e-3 * 510, rtol=0.05)
    result = study.fit()
    assert result.converged
    # Exact positions beside a prior that is off by half a standard deviation of 10 %: what the film itself says of the
    # scale is g t^2 / 2 = 1 m to 0.25 px of 500, 0.05 %, and pulls the prior's 5 % down to (0.05 / 10)^2 of itself.
    np.testing.assert_allclose(result.params["scale"], 2e-3, rtol=1e-4)
    assert study.scene.parameters["scale"].domain == Positive()
    assert result.stderr["scale"] < 1e-2 * 2e-3


@cases(
    "old new message",
    r"""
    scale = { value = 2.1, sigma = 0.2, unit = "mm/px" }\n |  | preparation.unit: unit 'px' cannot be converted to 'm';
    value = 2.1, s | value = -2.1, s | data.scale.value: -2.1, expected above 0
    sigma = 0.2 | sigma = 3 | data.scale.sigma: 3.0, expected above 0 and below the value 2.1
    "mm/px" | "mm" | data.scale.unit: unit 'mm' cannot be converted to 'm/px'
    sigma = 0.2 | error = 0.2 | data.scale.error: unknown key
    """,
)
def test_bad_scales_are_named(tmp_path, old, new, message):
    scene = FILM.replace(old, new)
    with pytest.raises(ValueError) as caught:
        read_study(*write(tmp_path, scene, [0.0], dropped, "t,y"))
    assert message in str(caught.value)


def test_a_scale_with_an_error_of_its_own_follows_nothing(tmp_path):
    scene = FILM + '[ties]\nscale = "0.002 * restitution"\n'
    with pytest.raises(ValueError, match=r"two\.toml: ties\.scale: follows wherever it is free, so its prior would"):
        read_study(*write(tmp_path, scene, [0.0], dropped, "t,y"))


def test_a_longer_pixel_makes_the_same_motion_smaller_in_the_film(tmp_path):
    """In metres at the scale that the scene states, 2.1 mm per pixel, whatever the scale that is fitted."""
    study = read_study(*write(tmp_path, FILM, [0.0], dropped, "t,y"))
    observe = jax.jit(lambda q, params: study.scene.ready.observe(SimpleNamespace(q=q), params))
    seen = observe(np.array([[0.5], [1.0]]), study.params(0) | {"scale": 4.2e-3})
    np.testing.assert_allclose(seen, [[0.25], [0.5]], rtol=1e-12)


def test_a_fixed_scale_is_a_unit_and_nothing_else(tmp_path):
    scene = FILM.replace("sigma = 0.2, ", "").replace("1e9", "20")
    study = read_study(*write(tmp_path, scene, [0.0], dropped, "t,y"))
    assert "scale" not in study.scene.parameters
    np.testing.assert_allclose(study.runs[0].values, 2.1e-3 * dropped(0)[:21], rtol=1e-12)


DISC = """\
[system]
kind = "balls"
count = 1
dimension = 2
planes = [[0, 1]]
spin = true
[data]
time = "t"
time_unit = "s"
noise = { value = 0.1, unit = "mm" }
[preparation]
kind = "coordinates"
columns = ["x", "y"]
unit = "m"
angles = ["phi"]
angle_unit = "deg"
angle_noise = { value = 0.1, unit = "deg" }
[parameters]
mass = { value = 1, free = false }
radius = { value = 100, unit = "mm", free = false }
plane_offset = { value = 0, free = false }
gravity = { value = [0, -10], free = false }
restitution = { value = 0, free = false }
friction = { value = 0.1 }
q0 = { value = "from data", unit = "m", free = [true, false] }
u0 = { value = "from data", unit = "m/s", free = [true, false] }
spin0 = { value = "from data", unit = "rad/s" }
angle0 = { value = "from data", unit = "deg" }
"""


def sliding(_):
    """A disc on a floor slides at 2 m/s without turning, mu = 0.2, until it rolls after 1/3 s; angles modulo 360."""
    roll = 2.0 / (3 * 0.2 * 10)
    t, since = np.minimum(TIMES, roll), np.maximum(TIMES - roll, 0.0)
    x = 2 * t - 0.2 * 10 / 2 * t**2 + 4 / 3 * since
    # The friction turns it backwards, m r^2 / 2 alpha = mu m g r.
    phi = -(0.5 * 2 * 0.2 * 10 / 0.1 * t**2 + 4 / 3 / 0.1 * since) + np.deg2rad(200)
    return np.stack([x, np.full_like(x, 0.1), (np.rad2deg(phi) + 180) % 360 - 180], axis=1)


def test_measured_angles_go_beyond_full_turns(tmp_path):
    study = read_study(*write(tmp_path, DISC, [0.0], sliding, "t,x,y,phi"))
    np.testing.assert_allclose(study.runs[0].values[:, 2], np.unwrap(np.deg2rad(sliding(0)[:, 2])), rtol=1e-12)
    assert study.scene.noises.tolist() == pytest.approx([1e-4, 1e-4, np.deg2rad(0.1)])


@cases(
    "old new message",
    r"""
    spin = true |  | preparation.angles: of what has none, expected balls in 2 dimensions with spin = true
    ["phi"] | ["phi", "psi"] | preparation.angles: 2 columns, expected 1, one for each disc
    angle_noise = { value = 0.1, unit = "deg" } |  | preparation.angle_noise: missing, expected a table
    angle_noise = { value = 0 | angle_noise = { value = -0 | preparation.angle_noise: -0.0017
    angle0 = { value = "from data", unit = "deg" } |  | parameters.angle0: missing, expected { value = 'from
    unit = "rad/s" | unit = "Hz" | two.toml: parameters.spin0.unit: unit 'Hz' cannot be converted to 'rad/s': of
    angle_unit = "deg" | angle_unit = "mm" | preparation.angle_unit: unit 'mm' cannot be converted to 'rad'
    """,
)
def test_bad_angles_are_named(tmp_path, old, new, message):
    with pytest.raises(ValueError) as caught:
        read_study(*write(tmp_path, DISC.replace(old, new), [0.0], sliding, "t,x,y,phi"))
    assert message in str(caught.value)
