"""The protocol of neighbours: what is not told, and how often a run is repeated."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import diffcontact as dc
from diffcontact.simulate import ENLARGEMENTS, with_room
from diffcontact.status import Status
from diffcontact.system import AllContacts, carried_over, taken


@dataclass(frozen=True)
class Shelf(AllContacts):
    """Has places, and needs some."""

    places: int

    def larger(self, status=Status.NEIGHBOURS_FULL):
        return Shelf(2 * self.places) if status == Status.NEIGHBOURS_FULL else None


@dataclass(frozen=True)
class Found:
    status: Array
    places: int


def _needs(places, tried, short=Status.NEIGHBOURS_FULL):
    def run(shelf):
        tried.append(shelf.places)
        return Found(jnp.where(shelf.places < places, short, Status.OK), shelf.places)

    return run


@pytest.mark.parametrize("places", [1, 3, 8])
def test_a_run_is_repeated_until_there_is_room(places):
    tried = []
    assert with_room(_needs(places, tried), Shelf(1)).places >= places
    assert tried == [2**k for k in range(len(tried))]
    assert tried[-1] < 2 * places


def test_a_run_that_never_has_room_ends_and_says_so():
    tried = []
    assert with_room(_needs(np.inf, tried), Shelf(1)).status == Status.NEIGHBOURS_FULL
    assert len(tried) == ENLARGEMENTS


def test_what_more_room_does_not_help_is_not_repeated():
    tried = []
    assert with_room(_needs(np.inf, tried, Status.TOO_COARSE), Shelf(1)).status == Status.TOO_COARSE
    assert tried == [1]


def test_inside_transformations_there_is_one_run():
    tried = []
    status = jax.jit(lambda places: with_room(_needs(places, tried), Shelf(1)).status)(4)
    assert status == Status.NEIGHBOURS_FULL
    assert tried == [1]


def test_values_follow_their_contacts():
    free = jnp.iinfo(jnp.int32).max
    earlier, numbers = np.array([1, 4, 6, free], np.int32), np.array([0, 4, 5, 6, free, free], np.int32)
    # What stood in a free place is no contact's.
    found = jax.jit(carried_over)(np.array([10.0, 40.0, 60.0, 99.0]), earlier, numbers)
    assert found.tolist() == [0.0, 40.0, 0.0, 60.0, 0.0, 0.0]
    assert taken(numbers).tolist() == [True] * 4 + [False] * 2


def test_a_system_without_a_list_is_its_own_neighbourhood():
    q = np.zeros(2)
    for system in (dc.systems.balls(2, 1), dc.systems.particle_line(2)):
        assert system.neighbours({}, 0.0, 0.1, q, q) is system
        assert system.numbers is None
        assert system.larger() is None
        assert system.overlooked(q, q + 1.0) == Status.OK
        assert system.reported(q) is q
