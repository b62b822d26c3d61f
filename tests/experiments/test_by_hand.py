"""Recordings by hand and by the commands, in the study's smoke mode."""

import by_hand
import pytest


def test_commands_find_what_a_fit_by_hand_finds(data):
    if not (data / "airtrack_carts").is_dir():
        pytest.skip(f"{data} is absent: experiments/airtrack.toml says where the runs come from")
    rows = by_hand.main([str(data), "--smoke"])
    assert [row.name for row in rows] == ["ball1_3 restitution", "A2_1 restitution", "A2_1 mass_ratio"]
    for row in rows:
        assert row.agrees, row
