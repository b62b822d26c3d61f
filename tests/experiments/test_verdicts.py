import verdicts


def test_faults_are_named_and_clean_replicas_left_alone(capsys):
    found = verdicts.main(["--smoke"])
    assert found["clean: film of a ball"].explains == (5, 0, 0)
    for name in ("restitution falls with speed", "noise"):
        # One of five may show another pattern by chance; none is taken for right.
        assert found[name].named >= 4
        assert found[name].explains[0] == 0
    assert capsys.readouterr().out.count(" of 5\n") == 3
