"""The study of bad starts, in its smoke mode."""

import starts


def test_bad_starts_reach_the_global_optimum():
    assert starts.main(["--smoke"])["ball"]["automatic"][0] == 6
