import trusted_intervals


def test_a_camera_that_sways_is_told_and_a_steady_one_left_alone(capsys):
    found = trusted_intervals.main(["--smoke"])
    assert found["clean: film of a ball"].explains == (3, 0, 0)
    # By three times the noise.
    assert found["ball: camera sways by 3 mm"].explains[0] == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
