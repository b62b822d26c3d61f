"""Projections in numbers of a few binary digits, so that they and their solutions are exact.

All are built backwards from the solution u: rows with a value there, multipliers, and v = u - M^-1 G^T multipliers.
"""

from dataclasses import dataclass, field

import numpy as np


@dataclass
class Exact:
    """A problem that is being built: rows with their values and multipliers at u."""

    rng: np.random.Generator
    dimension: int
    digits: int
    rows: list = field(default_factory=list)
    values: list = field(default_factory=list)
    multipliers: list = field(default_factory=list)

    def entries(self, *shape):
        """Multiples of 2^-digits in [-1, 1]."""
        return np.round(self.rng.uniform(-1, 1, shape) * 2.0**self.digits) / 2.0**self.digits

    def positive(self, *shape):
        """Multiples of 1/8 in [1/4, 1]."""
        return np.round(self.rng.uniform(0.25, 1, shape) * 8) / 8

    def add(self, row, value=0.0, multiplier=0.0):
        self.rows.append(row)
        self.values.append(value)
        self.multipliers.append(multiplier)

    def solved(self, count, decades=0):
        """The problem, filled up with rows that are not active; lengths and masses from 2^-decades to 2^decades."""
        while len(self.rows) < count:
            self.add(self.entries(self.dimension), self.positive())
        mass = 2.0 ** self.rng.integers(-decades, decades + 1, self.dimension)
        length = 2.0 ** self.rng.integers(-decades, decades + 1, count)
        order, u = self.rng.permutation(count), self.entries(self.dimension)
        G, values = np.array(self.rows), np.array(self.values)
        v = u - G.T @ np.array(self.multipliers) / mass
        return (mass, (G * length[:, None])[order], ((values - G @ u) * length)[order], v), u


def equalities(rng, count, dimension, digits=9, decades=0):
    """Opposite rows, each pair an equality with a force of either sign or none, and a few inequalities."""
    problem = Exact(rng, dimension, digits)
    for _ in range(rng.integers(1, min(dimension, count // 2) + 1)):
        row, side = problem.entries(dimension), rng.integers(0, 2)
        force = problem.positive() * rng.integers(0, 2)
        problem.add(row, 0.0, force * side)
        problem.add(-row * 2.0 ** rng.integers(-3, 4), 0.0, force * (1 - side))
    for _ in range(rng.integers(0, min(3, count - len(problem.rows) + 1))):
        problem.add(problem.entries(dimension), 0.0, problem.positive() * rng.integers(0, 2))
    return problem.solved(count, decades)


def nearly_dependent(rng, count, dimension, angle, sign, digits=9):
    """One or two pairs of rows at a small angle, of opposite directions (sign -1) or of one (+1), and an equality."""
    problem = Exact(rng, dimension, digits)
    for _ in range(rng.integers(1, 3)):
        row = problem.entries(dimension)
        problem.add(row, 0.0, problem.positive())
        problem.add(sign * (row + angle * problem.entries(dimension)), 0.0, problem.positive() * rng.integers(0, 2))
    row = problem.entries(dimension)
    problem.add(row, 0.0, problem.positive())
    problem.add(-row)
    return problem.solved(count)


def contradiction(rng, count, dimension, violation, digits=9):
    """Rows G_K and -sum w_k G_k, w > 0, that all want more than they can have; what is left to the first is w times
    what is left to the last one: the violations of least sum of squares are proportional to (w, 1)."""
    problem = Exact(rng, dimension, digits)
    pressing = rng.integers(1, dimension)
    opposed = rng.integers(1, pressing + 1)
    rows, weights = problem.entries(pressing, dimension), problem.positive(opposed)
    for i in range(pressing):
        problem.add(rows[i], -violation * weights[i] if i < opposed else 0.0, problem.positive())
    problem.add(-weights @ rows[:opposed], -violation)
    return problem.solved(count)


def stacked(problems):
    """A batch: mass, G, b and v, and the solutions."""
    arguments, solutions = zip(*problems, strict=True)
    return tuple(np.stack(x) for x in zip(*arguments, strict=True)), np.stack(solutions)


def size(problem, u):
    """(lanes, d) the unit in which u is measured: the masses weigh what has to be moved."""
    mass, _, _, v = problem
    largest = np.maximum(np.abs(u).max(axis=1), np.abs(v).max(axis=1))[:, None]
    return largest + np.sum(np.sqrt(mass) * np.abs(v - u), axis=1, keepdims=True) / np.sqrt(mass)


def narrow(rng, count, dimension):
    """Rows in random directions that leave next to no room at a random point: some of those that hold there are at
    angles of 1e-4 to the span of others. In single precision; the solution is not built in."""
    G, u = rng.normal(size=(count, dimension)), rng.normal(size=dimension)
    b = 10 ** rng.uniform(-6, -2.5) * rng.uniform(0, 1, count) - G @ u
    problem = np.exp(rng.normal(size=dimension)), G, b, u + rng.normal(size=dimension)
    return tuple(x.astype(np.float32) for x in problem), u
