"""One program for each (model, scheme, precision): the cases of a test are rows of a table.

Nearly all that a test of a simulation costs is to compile it. So the models of `zoo.py` are compared by identity, all
rows have as many times, and derivatives by all parameters come from the same program as the motion:

    ROWS = {"lands": {"end": 1.0, "q0": [0.0, 1.0]}, "bounces": {"end": 2.0, "restitution": [0.8, 0.0, 0.0]}}

    @pytest.mark.parametrize("name", ROWS)
    def test_energy(name):
        motion = run(zoo.POINT, ROWS)[name]

A row names the parameters that differ from the model's own; `end`, or `times` of `TIMES` numbers, and `substeps` are
the grid's. `alone` is the same call without a batch: a lane that knows of its neighbours differs from it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import diffcontact as dc

# Times of every program and lanes of a batch: a table is padded with its first row, and a longer one is run in parts.
LANES, TIMES = 8, 21


@dataclass(frozen=True, eq=False)
class Model:
    """A system, the values of its parameters, and where the motion starts, as a function of these.

    Rows that are `batched` go through one vmap, others are a call each: that takes a quarter less to compile, so on
    every commit only the disc's are batched; see `in_one_batch`.
    """

    system: Any
    params: dict[str, Any]
    start: Callable = field(default=lambda params: (params["q0"], params["u0"]))
    batched: bool = False


@dataclass(frozen=True)
class Motion:
    """A row's motion in numpy, and its derivatives."""

    t: np.ndarray
    q: np.ndarray
    u: np.ndarray
    impulse: np.ndarray
    friction: np.ndarray | None
    status: int
    params: dict
    # Name of a parameter -> (n + 1, 2 d, *its shape): of q, then u.
    by: dict | None

    @property
    def end(self):
        """(2 d,) q, then u."""
        return np.concatenate([self.q[-1], self.u[-1]])

    def jacobian(self, *names):
        """(2 d, p) of the end, by these parameters one after the other."""
        return np.concatenate([self.by[name][-1].reshape(self.end.size, -1) for name in names], axis=1)


def run(model, rows, scheme=None, *, derivative=True, single=False):
    """Name -> `Motion` of each row, all by one program."""
    scheme, number = scheme or dc.EventTimed(), np.float32 if single else np.float64
    names, given = list(rows), [_arguments(model, row, number) for row in rows.values()]
    program, found = _program(model, scheme, derivative, single), {}
    if not model.batched:
        with jax.enable_x64(not single):
            ends = [jax.tree.map(np.asarray, program(*row)) for row in given]
        return {name: _motion(*end, row[0]) for name, end, row in zip(names, ends, given, strict=True)}
    for first in range(0, len(names), LANES):
        part = given[first : first + LANES]
        lanes = jax.tree.map(lambda *leaves: np.stack(leaves), *part, *[given[0]] * (LANES - len(part)))
        with jax.enable_x64(not single):
            by, motions = jax.tree.map(np.asarray, program(*lanes))
        for k, name in enumerate(names[first : first + LANES]):
            found[name] = _motion(*jax.tree.map(lambda leaf, k=k: leaf[k], (by, motions)), part[k][0])
    return found


def in_one_batch(model, rows, scheme=None):
    """Name -> `Motion` of each row, all lanes of one vmap."""
    return run(replace(model, batched=True), rows, scheme)


def alone(model, row, scheme=None):
    """The `Motion` of a row by a plain call, which knows the number of substeps when it is traced."""
    params, times, substeps = _arguments(model, row, np.float64)
    motion = dc.simulate(model.system, params, *model.start(params), times, scheme=scheme, substeps=int(substeps))
    return _motion(None, motion, params)


def transposed(model, row, weights, scheme=None):
    """Name -> derivative of weights @ (q, u) of the end by each parameter, in reverse mode."""
    params, times, substeps = _arguments(model, row, np.float64)

    def weighted(params):
        q0, u0 = model.start(params)
        motion = dc.simulate(model.system, params, q0, u0, times, scheme=scheme, substeps=int(substeps))
        return weights @ jnp.concatenate([motion.q[-1], motion.u[-1]])

    return jax.tree.map(np.asarray, jax.jit(jax.grad(weighted))(params))


@cache
def _program(model, scheme, derivative, single):
    def states(params, times, substeps):
        q0, u0 = model.start(params)
        motion = dc.simulate(model.system, params, q0, u0, times, scheme=scheme, substeps=substeps)
        return jnp.concatenate([motion.q, motion.u], axis=1), motion

    def plain(*arguments):
        return None, states(*arguments)[1]

    lane = jax.jacfwd(states, has_aux=True) if derivative else plain
    return jax.jit(jax.vmap(lane) if model.batched else lane)


def _arguments(model, row, number):
    row = dict(row)
    times = row.pop("times", None)
    if times is None:
        times = np.linspace(0.0, row.pop("end", 1.0), TIMES)
    substeps = np.asarray(row.pop("substeps", 1))
    assert len(times) == TIMES
    assert row.keys() <= model.params.keys(), row.keys() - model.params.keys()
    params = {
        name: np.broadcast_to(np.asarray(row.get(name, value), number), np.shape(value))
        for name, value in model.params.items()
    }
    return params, np.asarray(times, number), substeps


def _motion(by, motion, params):
    fields = {name: getattr(motion, name) for name in ("t", "q", "u", "impulse", "friction")}
    fields = {name: None if value is None else np.asarray(value) for name, value in fields.items()}
    return Motion(**fields, status=int(motion.status), params=params, by=by)
