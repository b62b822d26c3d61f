"""What several engines need: contacts that are springs, turns, steps between times, errors."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from ..scene import Problem


def spring(e: float, duration: float) -> tuple[float, float]:
    """Stiffness [1/s^2] and damping [1/s], per mass, of a contact that lasts so long [s], touches without adhesion and
    bounces with e; with e = 0 critical ones, whose time constant is a quarter of it."""

    def rebound(zeta):
        root = np.sqrt(1 - zeta**2)
        return np.exp(-2 * zeta / root * np.arctan2(root, zeta))

    if e == 0:
        return (4 / duration) ** 2, 2 * (4 / duration)
    zeta, frequency = brentq(lambda zeta: rebound(zeta) - e, 1e-9, 1 - 1e-9), np.pi / duration
    return frequency**2, 2 * zeta * frequency


def counts(problem: Problem, h: float) -> list[int]:
    """Steps from each time to the next; the problems' times are multiples of all steps that are tried."""
    return np.diff(np.rint(np.array([0.0, *problem.times]) / h).astype(int)).tolist()


def quaternion(rotation) -> np.ndarray:
    """w x y z of a rotation vector."""
    rotation = np.asarray(rotation, float)
    angle = np.linalg.norm(rotation)
    axis = rotation / angle if angle else rotation
    return np.array([np.cos(angle / 2), *(np.sin(angle / 2) * axis)])


def matrix(q) -> np.ndarray:
    """(3, 3) from the body's frame to the world's."""
    w, x, y, z = q
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + 2 * (w * K + K @ K)


def upright(q) -> np.ndarray:
    """The quaternion of the same turn with w >= 0, as in the exact answers."""
    return np.asarray(q) * (-1.0 if q[0] < 0 else 1.0)


def relative(found, exact) -> float:
    """The largest error of all times, relative to the largest entry at that time."""
    axes = tuple(range(1, exact.ndim))
    return float(np.max(np.max(np.abs(found - exact), axis=axes) / np.max(np.abs(exact), axis=axes)))
