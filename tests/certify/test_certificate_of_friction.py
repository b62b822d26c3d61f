"""What a certificate says of a disc that falls on a rough floor, and of a block that slides: rows of one program."""

import numpy as np
import pytest
import zoo

import diffcontact as dc
from diffcontact.certify.singularity import Singularity

# Falls 0.4 m with a slip of 1 - 0.1 * 20 m/s, of which m / 3 takes part: P = 1.7 sqrt(2 g 0.4), B = 1.3 / 3 to grip.
GRIP = 1.3 / 3 / (1.7 * np.sqrt(0.8 * 9.81))
LAW = {"radius": 0.1, "restitution": 0.7, "tangential_restitution": 0.3}
DROP = LAW | {"q0": [0.0, 0.5, 0.0], "u0": [1.0, 0.0, -20.0], "end": 0.5}
# A block with v' = -mu g + 2 mu g sin t: v is least at t = pi / 6.
WEIGHT = 0.5 * 9.81
LEAST = WEIGHT * (np.pi / 6 - 2 * (1 - np.cos(np.pi / 6)))


def _slides(least):
    return {"q0": np.zeros(3), "u0": [LEAST + least, 0.0, 0.0], "amplitude": 2 * WEIGHT, "end": 0.8}


ROWS = {
    "slips": (DROP | {"friction": 0.9 * GRIP}, []),
    "all but grips": (DROP | {"friction": (1 - 1e-4) * GRIP}, [Singularity.CONE_EDGE]),
    "at the edge": (DROP | {"friction": GRIP}, [Singularity.CONE_EDGE]),
    "grips": (DROP | {"friction": 1.01 * GRIP}, [Singularity.GRIPPED]),
    "slides on": (_slides(1e-2), []),
    "all but stops": (_slides(1e-4), [Singularity.SLIP_GRAZES]),
    "stops for a moment": (_slides(-1e-4), [Singularity.SLIP_GRAZES]),
    "stops, and slides again": (_slides(-1e-2), []),
}


@pytest.mark.parametrize("name", ROWS)
def test_what_is_found(name):
    row, expected = ROWS[name]
    row = zoo.DISC.params | row
    times = np.linspace(0.0, row.pop("end"), 21)
    params = {key: np.asarray(value, float) for key, value in row.items()}
    certificate = dc.certify(zoo.DISC.system, params, row["q0"], row["u0"], times, substeps=1, percussions=16)
    assert [one.singularity for one in certificate.findings] == expected
    assert certificate.clear == (expected in ([], [Singularity.GRIPPED]))
    # Of a slip that all but ends the step is told, of 0.04 s; one that stops does so 5 ms before it would be least.
    at, atol = (np.sqrt(0.8 / 9.81), 1e-12) if "radius" in ROWS[name][0] else (np.pi / 6, 0.045)
    np.testing.assert_allclose([one.time for one in certificate.findings], [at] * len(expected), atol=atol)
    if expected == [Singularity.GRIPPED]:
        assert "for information: an impact in the grip" in str(certificate)
