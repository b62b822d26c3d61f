"""Observe a mechanism: columns of a recording by the names of joints, bodies, sites and sensors of its file.

Of axes with the rotation R to the world, the place x, the velocity v = x' and the angular velocity w::

    framepos, framelinvel, frameangvel      x, v, w            velocimeter, gyro                           R^T v, R^T w
    framexaxis, frameyaxis, framezaxis      columns of R       jointpos, jointvel, tendonpos, tendonvel    sums of q, q'

Forces of hard contacts have impulses in them. So what feels forces is a mean over the interval h that ends at a time, R
the mean of both ends; it is zero at the first time, before which there is none::

    accelerometer    R^T ((v - v_before) / h - g)
    touch            sum of the normal impulses / h of the contacts of its body that lie within the site

Source: MuJoCo's documentation, XML Reference, sensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from diffcontact.system import System, rate
from diffcontact.systems import geoms, tree
from diffcontact.systems.model_file import SINGLE, Model, Sensor
from diffcontact.systems.tree import dot

_AXES = ("framexaxis", "frameyaxis", "framezaxis")
SENSORS = (*SINGLE, "framepos", *_AXES, "framelinvel", "frameangvel", "velocimeter", "gyro", "accelerometer")


def known(model: Model) -> tuple[dict[str, int], dict[str, tuple[int, np.ndarray]], dict[str, Sensor]]:
    """Hinges and slides with their entries in q; bodies and sites with their frames and places therein; sensors."""
    labels, joints = model.labels, model.tree
    rows = {
        joint: int(joints.position[number])
        for number, joint in enumerate(labels["joint"], 1)
        if joints.kind[number] not in (tree.FREE, tree.BALL)
    }
    points: dict[str, tuple[int, np.ndarray]] = {}
    for kind, at in (("site", model.sites), ("mass", model.bodies)):
        points |= dict(zip(labels[kind], zip(at.frame, at.place, strict=True), strict=True))
    # Of things of one name the first counts.
    points = {name: at for name, at in points.items() if name not in rows}
    return rows, points, {name: one for name, one in model.sensors.items() if name not in rows | points}


@dataclass(frozen=True, eq=False)
class Observed:
    """Columns that are observed of a mechanism; see `Mechanism.observe`.

    Attributes:
        system, model: the mechanism, and its file.
        channels: (k,) names of the columns.
        coordinate: (a,) entries of q.
        frame, local: (b,), (b, 3) frames of points, and the points therein [m].
        sensors: of the file.
        order: (k,) the columns among coordinates, places of points and sensors.
    """

    system: System
    model: Model
    channels: tuple[str, ...]
    coordinate: np.ndarray
    frame: np.ndarray
    local: np.ndarray
    sensors: tuple[Sensor, ...]
    order: np.ndarray

    @classmethod
    def of(cls, system: System, model: Model, names: Sequence[str]) -> Observed:
        """Of joints, bodies, sites and sensors by these names."""
        rows, points, sensors = known(model)
        unknown = [name for name in names if not any(name in of for of in (rows, points, sensors))]
        if unknown or not names:
            every = ", ".join(dict.fromkeys([*rows, *points, *sensors]))
            raise ValueError(f"observe({', '.join(map(repr, unknown))}): expected some of {every}")
        parts: list[list[str]] = [[name for name in names if name in of] for of in (rows, points, sensors)]
        for name in parts[2]:
            if sensors[name].kind not in SENSORS:
                raise ValueError(f"observe({name!r}): {sensors[name].kind}, expected a sensor of {', '.join(SENSORS)}")
        channels, at = [], {}
        for name in (*parts[0], *parts[1], *parts[2]):
            single = name in rows or (name in parts[2] and sensors[name].kind in SINGLE)
            own = [name] if single else [f"{name} {axis}" for axis in "xyz"]
            at[name] = len(channels) + np.arange(len(own))
            channels += own
        order = np.concatenate([at[name] for name in names])
        frame = np.array([points[name][0] for name in parts[1]], int)
        local = np.array([points[name][1] for name in parts[1]], float).reshape(-1, 3)
        coordinate = np.array([rows[name] for name in parts[0]], int)
        of = tuple(sensors[name] for name in parts[2])
        return cls(system, model, tuple(channels[i] for i in order), coordinate, frame, local, of, order)

    def __call__(self, trajectory: Any, params: Any) -> Array:
        own = jax.vmap(self._placed)(jnp.asarray(trajectory.q))
        if self.sensors:
            own = jnp.concatenate([own, self._sensed(trajectory, params)], axis=1)
        return own[:, self.order]

    def at(self, q: Array) -> Array:
        """(k,) the columns at one configuration (n,), without sensors."""
        return self._placed(q)[self.order]

    def _placed(self, q: Array) -> Array:
        parts = [q[self.coordinate]]
        if self.frame.size:
            parts.append(self.model.tree.frames(q).points(self.frame, self.local).ravel())
        return jnp.concatenate(parts)

    def _sensed(self, run: Any, params: Any) -> Array:
        """(n, k) the columns of sensors."""
        model, q, u = self.model, jnp.asarray(run.q), jnp.asarray(run.u)
        frame = np.array([one.frame for one in self.sensors])
        local, own, weights = (np.array([getattr(one, of) for one in self.sensors]) for of in ("place", "turn", "arms"))

        def placed(q):
            frames = model.tree.frames(q)
            return frames.points(frame, local), dot("kij,kjl->kil", frames.turn[frame], own), dot("kn,n->k", weights, q)

        def moved(q, u):
            return jax.jvp(placed, (q,), (rate(self.system, params, q, u),))

        (x, R, length), (v, turned, opening) = jax.vmap(moved)(q, u)
        spin = dot("nkij,nklj->nkil", turned, R)
        w = jnp.stack([spin[..., 2, 1], spin[..., 0, 2], spin[..., 1, 0]], axis=-1)
        found = {
            "framepos": x, "framelinvel": v, "frameangvel": w, "jointpos": length, "tendonpos": length,
            "jointvel": opening, "tendonvel": opening, "velocimeter": dot("nkij,nki->nkj", R, v),
            "gyro": dot("nkij,nki->nkj", R, w),
        } | {kind: R[..., axis] for axis, kind in enumerate(_AXES)}  # fmt: skip
        kinds, h = {one.kind for one in self.sensors}, jnp.diff(run.t)[:, None]
        if "accelerometer" in kinds:
            gravity = jnp.asarray(params.get("gravity", model.defaults["gravity"]), q.dtype)
            felt = jnp.diff(v, axis=0) / h[..., None] - gravity[None, None]
            found["accelerometer"] = _since(dot("nkij,nki->nkj", (R[1:] + R[:-1]) / 2, felt))
        if "touch" in kinds:
            found["touch"] = _since(self._touched(run.impulse / h, q[1:], x[1:], R[1:]))
        columns = []
        for number, one in enumerate(self.sensors):
            own = found[one.kind][:, number].reshape(len(q), -1)
            columns.append(jnp.clip(own, -one.cutoff, one.cutoff) if one.cutoff else own)
        return jnp.concatenate(columns, axis=1)

    def _touched(self, force: Array, q: Array, x: Array, R: Array) -> Array:
        """(n, k) the normal forces that sites feel, of contacts with forces (n, c) where sites are at x, R."""
        touching = geoms.Touching.of(self.model.pairs)
        at = jax.vmap(lambda q: touching.at(self.model.tree.frames(q)))(q)
        columns = []
        for number, one in enumerate(self.sensors):
            if one.volume is None:
                columns.append(jnp.zeros_like(force[:, 0]))
                continue
            point = jnp.where((touching.first == one.frame)[:, None], at.first, at.second)
            off = dot("nij,nci->ncj", R[:, number], point - x[:, number, None])
            within = one.felt[touching.pair][None] & one.volume.holds(off)
            columns.append(jnp.sum(jnp.where(within, force[:, : touching.pair.size], 0), axis=1))
        return jnp.stack(columns, axis=1)


def _since(means: Array) -> Array:
    """(n + 1, ...) means (n, ...) since the time before, zero at the first."""
    return jnp.concatenate([jnp.zeros_like(means[:1]), means])
