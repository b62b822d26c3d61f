"""A table of impacts: velocities before and after each, a row for one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from diffcontact.host.messages import shown
from diffcontact.scene.keys import Table
from diffcontact.scene.kinds import ReadySystem
from diffcontact.scene.measurements import Measurements
from diffcontact.scene.preparation.run import RESTITUTION_STARTS, Preparation, PreparedRun

# The velocities are those at these times; the system is struck between them.
_TIMES = np.array([0.0, 2.0])


@dataclass(frozen=True)
class Impacts(Preparation):
    """A table of impacts, each row a run of two samples: the velocities before and after it.

    Directions are those of the system: a ball comes from above, the first cart comes from behind, a body strikes a
    floor with its second velocity. Which way its spins and levers count the data tell: the change of spin is the moment
    of the change of velocity, rho^2 dw = l_n dv_n + l_t dv_t. Rows in which nothing approaches are left out.

    Attributes:
        before, after: names of the columns, one for each coordinate; of a body the spin is the last one.
        scale: from the columns' unit to m/s.
        spin_scale: of a body, from the unit of its spin to that of its other velocities: rad/s times rho.
        levers: of a body, columns of the levers about its centre, normal and tangential; else none.
        lever_scale: from their unit to the radius of gyration.
        flagged: column that is not 0 in rows that are left out, or "".
    """

    before: tuple[str, ...]
    after: tuple[str, ...]
    scale: float
    spin_scale: float = 1.0
    levers: tuple[str, ...] = ()
    lever_scale: float = 1.0
    flagged: str = ""

    gives = ("levers",)
    suggests = ("u0", "restitution")
    description = "each row is an impact: velocities before it and after it"
    KEYS: ClassVar[Mapping[str, str]] = {
        "before": "columns of the velocities before: of the ball; of two carts; of the body along the floor and off it",
        "after": "as many after it",
        "unit": 'of these, "m/s" by default',
        "spin": "of a body, [before, after]",
        "spin_unit": 'of these, "rad/s" by default',
        "levers": "of a body, [normal, tangential]: where the floor strikes it, seen from its centre",
        "lever_unit": 'of these, "m" by default',
        "gyration": "{ value, unit }: radius of gyration, the root of the moment of inertia over the mass",
        "flagged": "column that is not 0 in rows that are left out",
    }

    @classmethod
    def from_table(cls, table: Table, ready: ReadySystem) -> Impacts:
        """Read the scene's [preparation] table."""
        table.expect("kind", *cls.KEYS)
        if ready.length != "m/s":
            raise table.fail("kind", "'impacts' goes with the system 'impact'")
        before, after, body = table.names("before"), table.names("after"), "levers" in ready.given
        if len(after) != len(before):
            raise table.fail("after", f"{len(after)} columns, before has {len(before)}; expected as many")
        scale, flagged = table.factor("unit", "m/s"), table.text("flagged", "")
        if not body:
            for key in ("spin", "spin_unit", "levers", "lever_unit", "gyration"):
                if key in table:
                    raise table.fail(key, "of what does not turn, expected of = 'body' in [system]")
            return cls(before, after, scale, flagged=flagged)
        spin, levers, rho = table.names("spin"), table.names("levers"), table.quantity("gyration", "m")
        for key, names in (("spin", spin), ("levers", levers)):
            if len(names) != 2:
                raise table.fail(key, f"{len(names)} columns, expected two")
        return cls(
            (*before, spin[0]),
            (*after, spin[1]),
            scale,
            rho * table.factor("spin_unit", "rad/s"),
            levers,
            table.factor("lever_unit", "m") / rho,
            flagged,
        )

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.before, *self.after, *self.levers, *((self.flagged,) if self.flagged else ()))

    @property
    def channels(self) -> tuple[str, ...]:
        return self.before

    def __call__(self, times: NDArray, measurements: Measurements) -> tuple[PreparedRun, ...]:
        columns = measurements.columns
        scales = np.full(len(self.before), self.scale)
        if self.levers:
            scales[-1] = self.spin_scale
        before, after = (scales * np.stack([columns[name] for name in each], -1) for each in (self.before, self.after))
        good = np.all(np.isfinite(before) & np.isfinite(after), axis=1)
        if self.flagged:
            good &= np.nan_to_num(columns[self.flagged]) == 0
        levers, row = np.zeros((len(good), 0)), np.array([1.0])
        if self.levers:
            levers = self.lever_scale * np.stack([columns[name] for name in self.levers], -1)
            good &= np.all(np.isfinite(levers), axis=1)
            levers = levers * _directions(before[good], after[good], levers[good])
            speeds = [v[:, 1] + levers[:, 0] * v[:, 2] for v in (before, after)]
        else:
            row = np.array([1.0]) if len(self.before) == 1 else np.array([-1.0, 1.0])
            # Speeds without a sign, and axes that count downwards.
            way = -np.sign(np.sum((before @ row)[good])) or 1.0
            before, after = way * before, way * after
            if len(self.before) == 1 and np.sum(after[good]) < 0:
                after = -after
            speeds = [before @ row, after @ row]
        good &= speeds[0] < 0
        if not good.any():
            names = ", ".join(map(shown, self.before))
            raise ValueError(f"{measurements.path}: columns {names}: nothing approaches in any row, expected impacts")
        restitution = float(np.clip(np.median(-speeds[1][good] / speeds[0][good]), *RESTITUTION_STARTS))
        note = {"impacts": f"{int(good.sum())} of {good.size} rows"}
        return tuple(
            PreparedRun(
                measurements.path,
                _TIMES,
                np.stack([before[i], after[i]]),
                {"u0": before[i], "restitution": restitution},
                {"levers": levers[i]} if self.levers else {},
                note,
                measurements.sha256,
                part=f"impact {i + 1}",
            )
            for i in np.flatnonzero(good)
        )


def _directions(before: NDArray, after: NDArray, levers: NDArray) -> NDArray:
    """(2,) the signs of levers with which the change of spin is the moment of the change of velocity."""
    change = after - before
    moments = levers * change[:, [1, 0]]
    slopes = np.linalg.lstsq(moments, change[:, 2], rcond=None)[0]
    return np.where(slopes < 0, -1.0, 1.0)
