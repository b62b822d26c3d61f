"""What speaks against the friction of a run: impacts that all but grip, or all but slip."""

from __future__ import annotations

import numpy as np

from diffcontact.singularities.course import Course
from diffcontact.singularities.singularity import Singularity
from diffcontact.singularities.touches import Found


def grips(course: Course, change: float) -> list[Found]:
    """Contacts of impacts that leave at the edge between grip and slip.

    One that slips keeps the slip |w|, w = v_T+ + e_t v_T-; one that grips leaves mu P - |B| of its friction unused,
    which could stop a slip of (mu P - |B|) S M^-1 S^T. Where that is below `change` times the fastest slip of the
    bodies, a small change leads to the other branch, in which mu and the slip matter otherwise.
    """
    impacts, system = course.impacts, course.system
    if not system.rubs or not impacts.count:
        return []
    mu, e_t = course.friction
    found = []
    for k in range(impacts.count):
        slip = course.slips(impacts.time[k], impacts.q[k])
        before, after = (np.asarray(slip.velocity(u)) for u in (impacts.u[k], impacts.u[k] + impacts.jump[k]))
        turned = np.where(impacts.soft[k], 0.0, e_t)[:, None] * before
        kept, used = (np.linalg.norm(x, axis=1) for x in (after + turned, impacts.friction[k]))
        tangents = np.asarray(slip.tangents)
        # Of one contact's directions alike: those of a ball.
        mobility = np.max(np.sum(tangents * np.linalg.solve(course.mass(impacts.q[k]), tangents.mT).mT, axis=2), axis=1)
        unused = np.maximum(mu * impacts.impulse[k] - used, 0.0) * mobility
        fastest = np.linalg.norm(np.abs(tangents) @ course.fastest + np.abs(np.asarray(slip.drift)), axis=1)
        took_part = impacts.impulse[k] > np.finfo(kept.dtype).eps ** 0.5 * np.max(impacts.impulse[k])
        edge = took_part & (mu > 0) & (kept + unused <= change * fastest)
        found += [(Singularity.GRIP, float(impacts.time[k]), int(i)) for i in np.flatnonzero(edge)]
    return found
