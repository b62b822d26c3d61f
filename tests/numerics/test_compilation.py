"""How much there is to compile, and how: before XLA sees a program its instructions are counted."""

import gc
import sys
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.numerics import compilation
from diffcontact.numerics.compilation import jit_fast_compile


@pytest.fixture(autouse=True)
def _without_kernel(monkeypatch):
    monkeypatch.setenv("DIFFCONTACT_KERNEL", "jax")


def program(scheme, balls=1, dimension=1, steps=10, substeps=1):
    """A simulation in a box, of so many contacts and steps, before XLA optimises it."""
    box = dc.systems.balls(balls, dimension, box=(0.0, 100.0))
    params = {"mass": jnp.ones(balls), "radius": jnp.zeros(balls), "gravity": -jnp.ones(dimension), "restitution": 0.5}
    q0, times = 1.0 + jnp.arange(balls * dimension, dtype=float), jnp.linspace(0.0, 1.0, steps + 1)

    def end(q0):
        return dc.simulate(box, params, q0, jnp.zeros_like(q0), times, scheme=scheme, substeps=substeps).q[-1]

    return jax.jit(end).lower(q0).compiler_ir("hlo").as_hlo_text()


def instructions(*args, **kwargs):
    return sum(" = " in line for line in program(*args, **kwargs).splitlines())


@pytest.mark.parametrize("scheme", [dc.EventTimed(), dc.VelocityProjection()])
@pytest.mark.full
def test_steps_between_two_times_leave_no_long_arrays(scheme):
    """A loop whose body touches one is run by XLA, on a CPU, as a graph of tasks, at twice the time."""
    assert "[10]" in program(scheme)
    assert "10007" not in program(scheme, steps=1, substeps=10_007).replace("constant(10007)", "")


# 6 542, 6 540 and 1 258 with jax 0.10.1, a tenth of the first two for products in loops of a kernel; and room for what
# another release writes otherwise.
@pytest.mark.parametrize(
    ("scheme", "most"),
    [(dc.EventTimed(), 6_650), (dc.EventTimed(order=2), 6_650), (dc.VelocityProjection(), 1_280)],
)
@pytest.mark.full
def test_a_simulation_is_a_small_program(scheme, most):
    assert instructions(scheme) <= most


@pytest.mark.parametrize("substeps", [1, 3])
@pytest.mark.parametrize("scheme", [dc.EventTimed(), dc.VelocityProjection()])
@pytest.mark.full
def test_a_step_is_traced_once(scheme, substeps, monkeypatch):
    """What a step costs is asked of its shapes more than once: tracing takes a quarter of a first call."""
    traced, step = [], type(scheme).step
    monkeypatch.setattr(type(scheme), "step", lambda *args: traced.append(1) or step(*args))
    # As many steps as in no other test: JAX would know the program.
    program(scheme, steps=23, substeps=substeps)
    assert len(traced) == 1


@pytest.mark.parametrize(
    ("spin", "scheme"), [(False, dc.EventTimed()), (False, dc.EventTimed(order=2)), (True, dc.EventTimed())]
)
@pytest.mark.full
def test_reverse_mode_keeps_little_of_a_step(spin, scheme):
    """Room for all that nine pieces of motion of eight attempts each may compute is cleared and read in every step."""
    balls = 1 if spin else 3
    box = dc.systems.balls(balls, 2, box=(0.0, 100.0), spin=spin)
    params = {"mass": jnp.ones(balls), "radius": jnp.ones(balls), "gravity": -jnp.ones(2), "restitution": 0.5}
    params |= {"friction": 0.3} if spin else {}
    q = 1.0 + jnp.arange(3.0 if spin else 6.0)

    def pulled_back(q):
        def step(q):
            return scheme.step(box, params, 0.0, 0.01, scheme.init(box, params, 0.0, 0.01, q, q))[0].q

        return jax.vjp(step, q)[1]

    kept = sum(x.size for x in jax.tree.leaves(jax.eval_shape(pulled_back, q)))
    # 1 000 with friction, 3 700 without, of states at events for the most part; nearly 400 000 and 540 000 before.
    assert kept < 5_000


@pytest.mark.full
def test_neither_steps_nor_contacts_make_it_larger():
    """Loops run over both. Balls that can touch each other have gaps that balls alone have not."""
    few = instructions(dc.EventTimed(), balls=2, dimension=2)
    assert instructions(dc.EventTimed(), balls=2, dimension=2, steps=1000) == few
    assert instructions(dc.EventTimed(), balls=4, dimension=2) <= 1.05 * few


@pytest.mark.full
def test_nobody_who_compiles_by_himself_is_told_how():
    """JAX takes options from whoever compiles the whole; a call inside must bring none."""
    double = jit_fast_compile(lambda x, times: times * x, static=("times",))
    x = jnp.arange(3.0)
    expected = 2 * x
    for transformed in (jax.jit(lambda x: double(x, times=2)), jax.vmap(lambda x: double(x, times=2))):
        np.testing.assert_array_equal(transformed(x), expected)
    assert jax.grad(lambda x: double(x, times=2))(1.0) == 2
    assert jax.checkpoint(lambda x: double(x, times=2))(1.0) == 2
    assert jax.hessian(lambda x: double(x * x, times=2))(1.0) == 4
    closed = jax.grad(lambda y: jit_fast_compile(lambda x: x * y)(2.0))(3.0)
    assert closed == 2


def test_options_that_xla_does_not_know_are_left_out(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "")
    options = {"xla_of_another_release": True, "xla_backend_optimization_level": 1}
    monkeypatch.setattr(compilation, "_QUICKLY", options)
    assert jit_fast_compile(lambda x: 2 * x)(1.0) == 2
    assert compilation._known() == {"xla_backend_optimization_level": 1}


def test_code_that_has_little_to_do_is_not_optimised(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "")
    little, much = (compilation._known(little) for little in (True, False))
    assert little["xla_backend_optimization_level"] == 0 < much["xla_backend_optimization_level"]
    asked, known = [], compilation._known
    monkeypatch.setattr(compilation, "_known", lambda little: asked.append(little) or known(little))
    double = jit_fast_compile(lambda x: 2 * x, work=lambda x: x.size)
    for size in (3, 2 * 10**6, 4):
        np.testing.assert_array_equal(double(np.ones(size)), np.full(size, 2.0))
    assert asked == [True, False, True]
    assert double.programs() == 3


def test_the_programs_used_least_recently_go_first(monkeypatch):
    kept, made = compilation._Programs(2), []

    def get(name):
        kept.get(name, lambda: made.append(name) or name)

    for name in ("a", "b", "a", "c", "a", "b"):
        get(name)
    assert made == ["a", "b", "c", "b"]
    # The older half goes where memory mappings become many; the one that is asked for is never among it.
    kept.most = 10
    monkeypatch.setattr(compilation, "_mapped", lambda: 0.6)
    get("d")
    assert list(kept._kept) == ["b", "d"]


def test_a_program_goes_with_its_last_reference():
    """XLA crashes where a process has no memory mappings left: each program holds some."""

    class Watched:
        pass

    watched = Watched()
    gone = weakref.ref(watched)
    double = jit_fast_compile(lambda x, code: 2 * x, static=("code",))
    assert double(1.0, watched) == 2
    del watched
    dc.clear_caches()
    assert gone() is None
    assert double.programs() == 0


@pytest.mark.full
def test_a_system_goes_when_its_programs_go(monkeypatch):
    """JAX's own caches must not hold what was traced for a system: six megabytes of it, or more."""

    class Watched:
        zero = 0.0

    def traced():
        held = Watched()
        ball = dc.System(
            lambda t, q, p: q, lambda t, q, u, p: -q, lambda q, p: jnp.ones(1), lambda p: 0.5 + 0.0 * held.zero
        )
        run = jax.jacfwd(lambda q: dc.simulate(ball, {}, q, jnp.zeros(1), jnp.arange(3.0)).q)
        jax.eval_shape(run, jnp.ones(1))
        return weakref.ref(held)

    monkeypatch.setattr(compilation._PROGRAMS, "most", 1)
    gone = traced()
    traced()
    gc.collect()
    assert gone() is None


def test_near_the_limit_of_mappings_all_programs_go_or_an_error_says_so(monkeypatch):
    kept, cleared = compilation._Programs(2), []
    monkeypatch.setattr(compilation, "clear_caches", lambda: cleared.append(1))
    monkeypatch.setattr(compilation, "_mapped", lambda: 0.8 if len(cleared) == 0 else 0.1)
    kept.get("a", lambda: "program")
    assert cleared == [1]
    monkeypatch.setattr(compilation, "_mapped", lambda: 0.95)
    with pytest.raises(MemoryError, match=r"memory mappings: 95% .*vm.max_map_count.*expected room"):
        kept.get("b", lambda: "program")
    # What is there can be used.
    assert kept.get("a", lambda: pytest.fail("compiled")) == "program"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc")
def test_mappings_are_counted():
    assert 0 < compilation._mapped() < 1


def test_what_xla_flags_say_holds(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=0")
    assert "xla_backend_optimization_level" not in compilation._known()
