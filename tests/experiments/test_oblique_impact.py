"""Spheres that strike obliquely: the laws that fit, from integrated springs and from what was measured."""

import io

import numpy as np
import oblique_impact
import pytest
from springs import springs

TRUTH = {"restitution": 0.95, "friction": 0.12, "tangential_compliance": 1.3}


def recording(rng):
    """Rebounds of springs that were integrated, with the noise of the measurements."""
    rows = []
    for angle in (3.0, 8.0, 14.0, 20.0, 26.0, 34.0, 45.0):
        slip = np.tan(np.radians(angle))
        share = springs(slip, 3.5, TRUTH["friction"], TRUTH["restitution"], TRUTH["tangential_compliance"])
        kept = 1 - (1 - share) / 3.5
        rebound = np.degrees(np.arctan(kept * slip / TRUTH["restitution"]))
        spin = (1 - kept) * 3.9 * np.sin(np.radians(angle)) * 2.5 / 0.0025
        rows.append([angle, *(np.array([kept, rebound, spin]) + oblique_impact.NOISE * rng.normal(size=3))])
    return np.array(rows)


@pytest.mark.studies
def test_e_mu_and_the_ratio_of_stiffnesses_come_out():
    table = recording(np.random.default_rng(0))
    found = oblique_impact.fitted("compliant", table)
    assert found.verdict.explains != "no"
    for name, value in TRUTH.items():
        low, high = found.interval95[name]
        assert low < value < high, name
        assert high - low < 0.25 * value, name
    assert oblique_impact.fitted("rigid, constant e_t", table).verdict.explains == "no"


@pytest.mark.studies
def test_measured_impacts_rule_a_constant_restitution_out(capsys):
    found = oblique_impact.main(["--smoke"])
    assert found["compliant"].verdict.explains != "no"
    assert found["rigid, constant e_t"].verdict.explains == "no"
    low, high = found["compliant"].interval95["friction"]
    assert low < 0.092 < high
    assert 5 * found["compliant"].chi2_per_dof < found["rigid, constant e_t"].chi2_per_dof
    assert " 20.08  ratio" in capsys.readouterr().out


def test_a_table_without_its_columns_is_refused(tmp_path):
    table = oblique_impact.read(io.StringIO(oblique_impact.KHARAZ))
    assert table.shape == (23, 4)
    assert np.all(np.sum(np.isfinite(table), axis=1) == 2)
    other = tmp_path / "other.csv"
    other.write_text("angle [deg],spin [rad/s]\n1,2\n")
    with pytest.raises(SystemExit, match="expected the columns angle"):
        oblique_impact.main(["--data", str(other)])
