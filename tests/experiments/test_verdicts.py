import verdicts


def test_faults_are_named_and_clean_replicas_left_alone(capsys):
    found = verdicts.main(["--smoke"])
    assert found["clean: film of a ball"].explains == (5, 0, 0)
    for name in ("restitution falls with speed", "noise"):
        # One of five may show another pattern by chance; none is taken for right.
        assert found[name].named >= 4
        assert found[name].explains[0] == 0
    assert capsys.readouterr().out.count(" of 5\n") == 3


def test_of_recordings_the_right_ones_are_explained_and_a_tilt_is_set_free():
    assert verdicts.recorded("carts", "", 0) == ("yes", True, ())
    assert verdicts.recorded("pucks", "tilt", 2) == ("yes", True, ("gravity[0]",))
