import pytest

import diffcontact as dc

pytestmark = pytest.mark.full


def test_the_ready_made_system_is_one_and_the_same():
    assert dc.systems.carts() is dc.systems.carts()
