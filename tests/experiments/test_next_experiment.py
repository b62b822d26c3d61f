import next_experiment


def test_what_a_design_promises_is_what_one_gets():
    plan, was, proposed = next_experiment.main(["--smoke"])["ball"]
    for one in (was, proposed):
        # Of 40, a standard deviation is off by 11 %, and three times that once in four hundred.
        assert abs(one.ratio - 1) < 0.34
        # An interval's width hardly scatters; Student's t of the fit has a hundred degrees of freedom.
        assert abs(one.width - 1) < 0.1
    assert plan.gain(plan.best) > 3
