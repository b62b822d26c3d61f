import numpy as np

from diffcontact.cli import main
from diffcontact.commands import doctor


def test_a_sound_installation(capsys):
    assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    for part in ("jaxlib", "devices", "float64", "0 wrong", "impacts", "compilation", "sound"):
        assert part in printed
    assert "BROKEN" not in printed


def test_wrong_products_are_counted(monkeypatch):
    # What jax 0.10.2 does to every row beyond the 16384th, done to numpy's side instead.
    plain_sum = np.sum
    monkeypatch.setattr(doctor.np, "sum", lambda a, axis=None: plain_sum(a, axis=axis) * _spoilt(a))
    assert doctor.wrong_matrix_products() == 40_000 - 16_384


def _spoilt(a):
    return 1.0 if a.ndim == 1 else np.where(np.arange(len(a)) < 16_384, 1.0, 1.01)
