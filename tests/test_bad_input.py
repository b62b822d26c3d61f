"""What users get wrong: each gives one line that names it. Nothing is compiled before it is refused."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc

OWN = {
    "gap": lambda t, q, p: q[:1],
    "force": lambda t, q, u, p: -p["g"] * jnp.ones(2),
    "mass": lambda q, p: jnp.ones(2),
    "restitution": lambda p: p["e"],
}
PARAMS = {"g": 9.81, "e": 0.5}


def simulate(params=None, q0=(1.0, 0.0), u0=(0.0, 0.0), times=(0.0, 0.1), options=None, system=None, **functions):
    system = dc.System(**{**OWN, **functions}) if system is None else system
    return dc.simulate(system, PARAMS if params is None else params, q0, u0, times, **(options or {}))


@pytest.mark.parametrize(
    ("message", "call"),
    [
        (r"^q0: expected real numbers, got None$", {"q0": None}),
        (r"^q0: expected real numbers, got \['1', '2'\]$", {"q0": ["1", "2"]}),
        (r"^u0: expected real numbers, got 'fast'$", {"u0": "fast"}),
        (r"^q0: expected real numbers, got complex128$", {"q0": np.array([1j, 0.0])}),
        (r"^times: expected real numbers, got bool$", {"times": [False, True]}),
        (r"^q0: expected float32 or float64, got float16$", {"q0": np.ones(2, np.float16)}),
        (r"^u0: expected float32 or float64, got bfloat16$", {"u0": np.ones(2, jnp.bfloat16)}),
        (r"^q0: expected real numbers, got \[\[1.0\], \[1.0, 2.0\]\]$", {"q0": [[1.0], [1.0, 2.0]]}),
        (r"^q0: expected real numbers, got array\(\['a'\]", {"q0": np.array(["a"])}),
        (r"^q0: expected finite numbers, got \[nan  1.\]$", {"q0": [np.nan, 1.0]}),
        (r"^times: expected finite numbers", {"times": [0.0, np.inf]}),
        (r"^params\['g'\]: expected finite numbers, got nan$", {"params": {"g": np.nan, "e": 0.5}}),
        (r"^params\['a'\]\['b'\]: expected finite numbers", {"params": {**PARAMS, "a": {"b": np.array([1, np.nan])}}}),
        (r"^System.force: .* got \[-inf -inf\]; params\['g'\] is infinite$", {"params": {"g": np.inf, "e": 0.5}}),
        (r"^params\['g'\]: expected numbers, got '9.81'$", {"params": {"g": "9.81", "e": 0.5}}),
        (r"^System.force: no parameter 'g' in params \('e'\)$", {"params": {"e": 0.5}}),
        (
            r"^System.force: expected a function that JAX can trace, with jax.numpy in place of numpy$",
            {"force": lambda t, q, u, p: np.sin(q)},
        ),
        (r"^q0: expected the shape of u0, \(2,\), as the mass has it, got \(3,\)$", {"q0": [1.0, 0.0, 0.0]}),
        (r"^u0: expected the shape of q0, \(2,\), got \(3,\)$", {"u0": [1.0, 0.0, 0.0]}),
        (r"^q0: expected shape \(d,\)", {"q0": np.zeros((2, 2))}),
        (r"^times: expected shape", {"times": (0.0,)}),
        (r"^times: .* times\[2\] = 1.0 follows 1.0$", {"times": (0.0, 1.0, 1.0)}),
        (r"^System.restitution: .* \(\) or \(1,\), got \(2,\)", {"restitution": lambda p: np.zeros(2)}),
        (r"^restitution: expected within \[0, 1\], got 1.5", {"params": {"g": 9.81, "e": 1.5}}),
        (r"^mass: expected positive", {"mass": lambda q, p: -np.ones(2)}),
        (r"^q0: expected no overlap, but gap\[0\] = -0.5", {"q0": [-0.5, 0.0]}),
        (r"^System.restitution: no parameter 'e' in params \('g'\)$", {"params": {"g": 9.81}}),
        (
            r"^System.restitution: expected a function of \(params, speed\), got one of \(t, q, p\)$",
            {"restitution": lambda t, q, p: 1},
        ),
        (r"^System.gap: expected a function of \(t, q, params\), got one of \(q, p\)$", {"gap": lambda q, p: q}),
        (r"^System.mass: expected an array, got NoneType$", {"mass": lambda q, p: None}),
        (r"^System.mass: expected an array, got dict$", {"mass": lambda q, p: {"m": 1.0}}),
        (
            r"^System.mass: .* shape \(2,\) or \(2, 2\), got \(3,\); q0 has shape \(2,\)$",
            {"mass": lambda q, p: jnp.ones(3)},
        ),
        (r"^System.gap: expected an array of shape \(c,\), got \(\)$", {"gap": lambda t, q, p: q[0]}),
        (r"^System.gap: expected an array of shape \(c,\), got \(1, 2\)$", {"gap": lambda t, q, p: q[None]}),
        (r"^System.mass: expected real numbers, got bool$", {"mass": lambda q, p: np.ones(2, bool)}),
        (r"^System.force: expected real numbers, got complex128$", {"force": lambda t, q, u, p: 1j * q}),
        (
            r"^System.force\(t, q, u, params\), q of shape \(2,\): raised TypeError: ",
            {"force": lambda t, q, u, p: q + np.ones(3)},
        ),
        (r"raised TracerBoolConversionError: ", {"gap": lambda t, q, p: q if q[0] > 0 else -q}),
        (r"^mass: expected a symmetric matrix, got ", {"mass": lambda q, p: jnp.array([[1.0, 0.5], [0.0, 1.0]])}),
        (r"^mass: expected a positive definite matrix", {"mass": lambda q, p: jnp.array([[1.0, 2.0], [2.0, 1.0]])}),
        (r"^mass: expected a positive definite matrix", {"mass": lambda q, p: jnp.ones((2, 2))}),
        (r"^System.gap: expected numbers, got \[nan\]$", {"gap": lambda t, q, p: jnp.log(-q[:1])}),
        (r"^scheme: expected a step map like EventTimed\(\), got <class", {"options": {"scheme": dc.EventTimed}}),
        (r"^scheme: expected a step map like EventTimed\(\), got 'rk4'", {"options": {"scheme": "rk4"}}),
        (r"^substeps=2.5: expected an integer", {"options": {"substeps": 2.5}}),
        (r"^substeps=0", {"options": {"substeps": 0}}),
        (r"^tolerance=-1.0: expected a positive number$", {"options": {"substeps": "auto", "tolerance": -1.0}}),
        (r"^tolerance=nan: expected a positive number$", {"options": {"substeps": "auto", "tolerance": np.nan}}),
        (r"^tolerance: expected real numbers, got 'x'$", {"options": {"substeps": "auto", "tolerance": "x"}}),
        (r'^tolerance=1e-06: expected substeps="auto" with it, got substeps=1$', {"options": {"tolerance": 1e-6}}),
        (
            r'^tolerance=0.1: expected substeps="auto" with it, got substeps=4$',
            {"options": {"tolerance": 0.1, "substeps": 4}},
        ),
        (r"^breaks: expected real numbers, got 'late'$", {"options": {"breaks": "late"}}),
        (r"^breaks: expected finite numbers, got \[nan\]$", {"options": {"breaks": [np.nan]}}),
        (r"^system: expected a System or a ParticleLine, got dict$", {"system": {}}),
        (
            r"^q0: expected shape \(4,\), 2 balls of 2, got \(2,\)$",
            {"system": dc.systems.balls(2, 2), "params": {"mass": np.ones(2)}},
        ),
        (
            r"^params: expected 'mass' of shape \(2,\), got \['g', 'e'\]|^params: expected 'radius'",
            {"system": dc.systems.balls(2, 1)},
        ),
    ],
)
def test_one_line_says_what_was_expected(message, call):
    with pytest.raises(ValueError, match=message) as caught:
        simulate(**call)
    assert "\n" not in str(caught.value)


def test_params_that_are_none_are_named():
    system = dc.System(**OWN)
    with pytest.raises(ValueError, match=r"^System.force\(t, q, u, params\), .* subscriptable; params is None$"):
        dc.simulate(system, None, [1.0, 0.0], [0.0, 0.0], [0.0, 0.1])


@pytest.mark.parametrize("dimension", [0, 4, 2.0, True])
def test_balls_move_on_a_line_in_a_plane_or_in_space(dimension):
    with pytest.raises(ValueError, match=r"^balls\(dimension=.*\): expected an integer from 1 to 3$"):
        dc.systems.balls(1, dimension)


@pytest.mark.parametrize("bounds", [(np.nan, 1.0), (0.0, np.nan), ([0.0, np.nan], 1.0)])
def test_a_bound_that_is_not_a_number_is_called_so(bounds):
    with pytest.raises(ValueError, match=r": a bound is NaN, expected numbers; -inf and inf are no bounds$"):
        dc.Interval(*bounds)


def test_a_box_of_one_side_is_refused():
    with pytest.raises(ValueError, match=r"^balls\(box=1.0\): expected \(low, high\), each a number or 2 numbers$"):
        dc.systems.balls(1, 2, box=1.0)


def test_options_of_the_scheme_are_named():
    with pytest.raises(TypeError, match=r"no argument 'order'; it is the scheme's: scheme=EventTimed\(order=4\)$"):
        simulate(options={"order": 4})
    with pytest.raises(TypeError, match=r"no argument 'steps'$"):
        simulate(options={"steps": 4})


@pytest.mark.full
def test_what_can_be_read_is_taken():
    expected = simulate()
    with_lists = {
        "gap": lambda t, q, p: [q[0]],
        "force": lambda t, q, u, p: [-p["g"], -p["g"]],
        "mass": lambda q, p: np.ones(2, int),
        "restitution": lambda p: [0.5],
    }
    same = [
        simulate(**with_lists),
        simulate(q0=np.array([1, 0]), u0=[0, 0]),
        simulate(options={"substeps": np.int64(1)}),
    ]
    for run in same:
        np.testing.assert_array_equal(run.q, expected.q)


@pytest.mark.full
@pytest.mark.parametrize("make", [partial(dc.System, **OWN), partial(dc.systems.balls, 2, 1)])
def test_the_state_decides_the_precision(make):
    """Double constants and parameters, single state."""
    params = {**PARAMS, "mass": np.ones(2), "radius": np.full(2, 0.1), "gravity": np.array([-9.81]), "restitution": 0.5}
    single = [np.asarray(x, np.float32) for x in ([1.0, 2.0], [0.0, 0.0], [0.0, 0.3, 0.6])]
    run = dc.simulate(make(), params, *single)
    assert {x.dtype.name for x in (run.q, run.u, run.impulse, run.t)} == {"float32"}
    double = dc.simulate(make(), params, *(np.asarray(x, float) for x in single))
    assert double.q.dtype == jnp.float64
    # Rounding of 6e-8, some operations per step.
    np.testing.assert_allclose(run.q, double.q, atol=1e-5)


@pytest.mark.full
def test_times_that_single_precision_cannot_tell_apart_are_refused():
    """A day's clock: the motion of two seconds is the same wherever they lie, or it is not given."""
    single = [np.asarray(x, np.float32) for x in ([1.0, 2.0], [0.0, 0.0])]
    run = partial(dc.simulate, dc.System(**OWN), PARAMS, *single)
    times = np.linspace(0.0, 2.0, 21)
    with jax.enable_x64(False):
        here = run(times)
        # Up to 4e-6 s in times, that is, at some 10 m/s.
        np.testing.assert_allclose(run(100.0 + times).q, here.q, atol=1e-4)
        with pytest.raises(
            ValueError, match=r"^times: from 86400.0 to 86402.0, which float32 rounds by up to 0.0031 s"
        ):
            run(86400.0 + times)
        # What float32 holds exactly it may be given.
        assert np.all(np.isfinite(run(86400.0 + np.arange(3.0)).q))
    assert not np.any(dc.simulate(dc.System(**OWN), PARAMS, [1.0, 2.0], [0.0, 0.0], 86400.0 + times).status)


@pytest.mark.full
def test_times_may_be_traced_one_by_one():
    """A list of numbers and of what is differentiated by: a fall from 1 m, dq/dt = -g t."""
    height = lambda end: simulate(times=[0.0, end]).q[-1, 0]  # noqa: E731
    np.testing.assert_allclose(jax.jit(jax.grad(height))(0.3), -PARAMS["g"] * 0.3, rtol=1e-12)


@pytest.mark.full
def test_functions_may_close_over_traced_values():
    @jax.jit
    def end(e):
        return simulate(q0=[0.5, 0.0], times=[0.0, 0.5], restitution=lambda p: e).u[-1]

    expected = simulate(q0=[0.5, 0.0], times=[0.0, 0.5]).u[-1]
    np.testing.assert_allclose(end(0.5), expected, rtol=1e-12)


@pytest.mark.parametrize("returned", [None, {"m": 1.0}])
def test_a_ready_made_system_with_a_function_of_ones_own_is_told_the_same(returned):
    ball = replace(dc.systems.balls(1, 1), mass=lambda q, p: returned)
    params = {"mass": np.ones(1), "radius": np.ones(1), "gravity": np.zeros(1), "restitution": 0.5}
    with pytest.raises(ValueError, match=rf"^System.mass: expected an array, got {type(returned).__name__}$"):
        dc.simulate(ball, params, [1.0], [0.0], [0.0, 1.0])


LINE = dc.ParticleLine(
    mass=lambda p: p["mass"],
    damping=lambda p: p["damping"],
    stiffness=lambda p: np.zeros((2, 2)),
    load=lambda t, p: np.zeros(2),
    friction=lambda p: p["friction"],
    normal=lambda t, p: p["normal"],
    percussion_times=[0.5],
    percussions=lambda p: p["weights"],
)
LINE_PARAMS = {
    "mass": np.ones(2),
    "damping": np.eye(2),
    "friction": 0.3,
    "normal": np.ones(2),
    "weights": np.ones(1),
}


@pytest.mark.parametrize(
    ("message", "changed"),
    [
        (r"ParticleLine.mass: .* \(2,\), got \(3,\)", {"mass": np.ones(3)}),
        (r"ParticleLine.damping: .* \(2, 2\), got \(2,\)", {"damping": np.ones(2)}),
        (r"ParticleLine.percussions: .* \(1,\), got \(2,\)", {"weights": np.ones(2)}),
        (r"ParticleLine.friction: .* \(\), got \(2,\)", {"friction": np.ones(2)}),
        (r"ParticleLine.belt: .* \(\), got \(2,\)", {"belt": lambda t, p: np.zeros(2)}),
        (r"mass: expected positive", {"mass": np.array([1.0, 0.0])}),
        (r"friction: expected at least 0, got -0.1", {"friction": -0.1}),
        (r"percussions: expected at least 0", {"weights": np.array([-1.0])}),
        (r"params\[.normal.\]: expected finite", {"normal": np.array([1.0, np.nan])}),
        (r"damping: expected a symmetric", {"damping": np.array([[1.0, 0.5], [0.0, 1.0]])}),
        (r"damping: expected a positive semidefinite", {"damping": np.array([[1.0, 2.0], [2.0, 1.0]])}),
    ],
)
def test_a_particle_line_that_makes_no_sense_is_refused(message, changed):
    system = replace(LINE, belt=changed["belt"]) if "belt" in changed else LINE
    given = {**LINE_PARAMS, **{name: value for name, value in changed.items() if name != "belt"}}
    with pytest.raises(ValueError, match=message):
        dc.simulate(system, given, (0.0, 0.0), (0.0, 0.0), (0.0, 1.0), scheme=dc.PercussionFriction())


def test_normals_that_do_not_fit_the_gaps_are_refused():
    four, five = (dc.systems.balls(count, 1, box=(0.0, 1.0)) for count in (4, 5))
    params = {"mass": np.ones(4), "radius": np.full(4, 0.1), "gravity": np.zeros(1), "restitution": 0.0}
    wrong = replace(four, normals=lambda t, q, p: five.normals(t, np.zeros(5), p))
    with pytest.raises(ValueError, match=r"System.normals: expected an array of shape \(14, 4\), got \(20, 5\)"):
        dc.simulate(wrong, params, [0.1, 0.3, 0.5, 0.7], np.zeros(4), [0.0, 1.0])
    with pytest.raises(ValueError, match=r"System\(normals=...\): expected a function, got int"):
        replace(four, normals=3)
    steeper = replace(four, gap=lambda t, q, p: four.gap(t, q, p) * jnp.where(np.arange(14) == 9, 2.0, 1.0))
    with pytest.raises(ValueError, match=r"row 9 is not that of gap\[9\]"):
        dc.simulate(steeper, params, [0.1, 0.3, 0.5, 0.7], np.zeros(4), [0.0, 1.0])
