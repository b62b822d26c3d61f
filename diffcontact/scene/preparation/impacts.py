"""Tables of impacts: velocities before and after, one row each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from diffcontact.host.messages import shown
from diffcontact.scene.keys import Table
from diffcontact.scene.kinds import ReadySystem
from diffcontact.scene.preparation.run import PREPARATIONS, RESTITUTION_STARTS, Preparation, PreparedRun

# The velocities are those at these times; the system is struck between them.
_TIMES = np.array([0.0, 2.0])


@PREPARATIONS.add(
    "impacts",
    before="columns of the velocities before: of the ball; of two carts; of the body along the floor and off it",
    after="as many after it",
    unit='of these, "m/s" by default',
    spin="of a body, [before, after]",
    spin_unit='of these, "rad/s" by default',
    levers="of a body, [normal, tangential]: where the floor strikes it, seen from its centre",
    lever_unit='of these, "m" by default',
    gyration="{ value, unit }: radius of gyration, the root of the moment of inertia over the mass",
    flagged="column that is not 0 in rows that are left out",
)
def impacts(table: Table, ready: ReadySystem) -> Preparation:
    """Take each row as a run: velocities before and after.

    Directions are those of the system: a ball comes from above, the first cart from behind, a body strikes a floor with
    its second velocity. The data give the signs of its levers: rho^2 dw = l_n dv_n + l_t dv_t. Rows in which nothing
    approaches are left out. A spin is the last velocity of a body, times rho; levers are in units of rho.
    """
    if ready.length != "m/s":
        raise table.fail("kind", "'impacts' goes with the system 'impact'")
    before, after, body = table.names("before"), table.names("after"), "levers" in ready.given
    if len(after) != len(before):
        raise table.fail("after", f"{len(after)} columns, before has {len(before)}; expected as many")
    scales, flagged = np.full(len(before), table.factor("unit", "m/s")), table.text("flagged", "")
    arms, arm_scale = (), 1.0
    if body:
        spin, arms, rho = table.names("spin"), table.names("levers"), table.quantity("gyration", "m")
        for key, names in (("spin", spin), ("levers", arms)):
            if len(names) != 2:
                raise table.fail(key, f"{len(names)} columns, expected two")
        before, after = (*before, spin[0]), (*after, spin[1])
        scales = np.append(scales, rho * table.factor("spin_unit", "rad/s"))
        arm_scale = table.factor("lever_unit", "m") / rho
    for key in ("spin", "spin_unit", "levers", "lever_unit", "gyration"):
        if key in table and not body:
            raise table.fail(key, "of what does not turn, expected of = 'body' in [system]")

    def runs(times: NDArray, columns: Mapping[str, NDArray]) -> Iterable[PreparedRun]:
        del times
        u, v = (scales * np.stack([columns[name] for name in names], -1) for names in (before, after))
        good = np.all(np.isfinite(u) & np.isfinite(v), axis=1)
        if flagged:
            good &= np.nan_to_num(columns[flagged]) == 0
        levers = np.zeros((len(good), 0))
        if body:
            levers = arm_scale * np.stack([columns[name] for name in arms], -1)
            good &= np.all(np.isfinite(levers), axis=1)
            levers = levers * _directions(u[good], v[good], levers[good])
            speeds = [w[:, 1] + levers[:, 0] * w[:, 2] for w in (u, v)]
        else:
            row = np.array([1.0]) if len(before) == 1 else np.array([-1.0, 1.0])
            # Speeds without a sign, and axes that count downwards.
            way = -np.sign(np.sum((u @ row)[good])) or 1.0
            u, v = way * u, way * v
            if len(before) == 1 and np.sum(v[good]) < 0:
                v = -v
            speeds = [u @ row, v @ row]
        good &= speeds[0] < 0
        if not good.any():
            names = ", ".join(map(shown, before))
            raise ValueError(f"columns {names}: nothing approaches in any row, expected impacts")
        restitution = float(np.clip(np.median(-speeds[1][good] / speeds[0][good]), *RESTITUTION_STARTS))
        note = {"impacts": f"{int(good.sum())} of {good.size} rows"}
        for i in np.flatnonzero(good):
            start, given = {"u0": u[i], "restitution": restitution}, {"levers": levers[i]} if body else {}
            yield PreparedRun(_TIMES, np.stack([u[i], v[i]]), start, given, note, part=f"impact {i + 1}")

    return Preparation(
        runs=runs,
        columns=(*before, *after, *arms, *((flagged,) if flagged else ())),
        channels=before,
        description="each row is an impact: velocities before it and after it",
        suggests=("u0", "restitution"),
        gives=("levers",),
    )


def _directions(before: NDArray, after: NDArray, levers: NDArray) -> NDArray:
    """Signs (2,) of levers by which moments explain changes of spin."""
    change = after - before
    moments = levers * change[:, [1, 0]]
    slopes = np.linalg.lstsq(moments, change[:, 2], rcond=None)[0]
    return np.where(slopes < 0, -1.0, 1.0)
