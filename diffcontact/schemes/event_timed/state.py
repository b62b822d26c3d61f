"""What EventTimed carries from step to step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
from jax import Array

from diffcontact.schemes.truncation import Truncation


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["q", "u", "fastest", "unsettled", "truncation", "adhesion"],
    meta_fields=[],
)
@dataclass(frozen=True)
class TimedState:
    """Position q (d,), velocity u (d,), and what is known of each coordinate (d,): the largest |u| so far, `fastest`,
    the time until which bounces that are too short for a step would go on, `unsettled`, and its `truncation`; where
    contacts hold back their adhesions (c,) [N s]."""

    q: Array
    u: Array
    fastest: Array
    unsettled: Array
    truncation: Truncation
    adhesion: Array | None = None
