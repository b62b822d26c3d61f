import json

from diffcontact.commands.demo import TRUTH


def test_the_demo_finds_what_it_simulated(demo):
    result = json.loads((demo / "result.json").read_text())
    assert result["converged"] is True
    for name in ("restitution", "mass_ratio"):
        entry = result["parameters"][name]
        # A fixed seed: within four standard errors, and these are small.
        assert abs(entry["value"] - TRUTH[name]) < 4 * entry["stderr"]
        assert entry["stderr"] < 1e-3
