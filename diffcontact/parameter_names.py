"""Parameters that no function of a system reads although they look like one that some function does.

Params may hold what belongs to somebody else: to another run of a joint fit, to `initial`, to `observe`. So a key that
nothing reads is no mistake. One that is all but the same as a key that is read was meant for it, and would be left out
silently.
"""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import jax

# Above it two names have so many letters in common that one is the other, misspelled.
# Of four letters two are swapped, or one is another.
_ALIKE, _ALIKE_IF_SHORT, _SHORT = 0.8, 0.75, 4
# Letters of the shortest names that can be told from a misspelled one.
_SHORTEST = 3
# How names of a family differ: m1 and m2, e_floor and e_wall. They are none of them misspelled.
_SUFFIXES = re.compile(r"\d*$"), re.compile(r"(_[^_]*)?$")


@jax.tree_util.register_pytree_with_keys_class
class Recorded(dict):
    """Params that record which of their keys are asked for, those of the dicts within, too.

    Whoever looks at all of them, or hands them to JAX, has asked for all.

    Example:
        >>> params = Recorded({"mass": 1.0, "ball": {"radius": 0.1, "radios": 0.2}})
        >>> params["ball"]["radius"], params.get("drag", 0.0), "spin" in params
        (0.1, 0.0, False)
        >>> sorted(params.asked), sorted(params["ball"].asked)
        (['ball', 'drag', 'spin'], ['radius'])
    """

    def __init__(self, params: dict[Any, Any]):
        super().__init__({key: Recorded(value) if type(value) is dict else value for key, value in params.items()})
        self.params, self.asked = params, set()

    def __getattr__(self, name: str) -> Any:
        # What a subclass of dict holds beside its entries.
        return getattr(self.__dict__["params"], name)

    def __getitem__(self, key: Any) -> Any:
        self.asked.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: Any) -> bool:
        self.asked.add(key)
        return super().__contains__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)

    def __iter__(self) -> Iterator[Any]:
        self.asked.update(dict.keys(self))
        return super().__iter__()

    def keys(self) -> Any:
        self.asked.update(dict.keys(self))
        return super().keys()

    def values(self) -> Any:
        self.keys()
        return super().values()

    def items(self) -> Any:
        self.keys()
        return super().items()

    def copy(self) -> dict[Any, Any]:
        return dict(self.items())

    def __or__(self, other: Any) -> dict[Any, Any]:
        return self.copy() | other

    def __ror__(self, other: Any) -> dict[Any, Any]:
        return other | self.copy()

    def tree_flatten_with_keys(self) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
        names = sorted(self)
        return [(jax.tree_util.DictKey(name), self[name]) for name in names], tuple(names)

    @classmethod
    def tree_unflatten(cls, names: Iterable[Any], values: Iterable[Any]) -> Recorded:
        return cls(dict(zip(names, values, strict=True)))


def require_names(recorded: Recorded, known: bool) -> None:
    """Refuse keys that nothing reads and that are all but one that is missing; warn of those all but one that is there.

    Args:
        recorded: what the functions of a system were given.
        known: whether to warn; inside a transformation, as in a fit, other readers may follow.

    Raises:
        ValueError: a key that was asked for is not there, but misspelled.

    Example:
        >>> params = Recorded({"mass": 1.0, "intertia": 1.0, "inertia_of_rotor": 1.0})
        >>> params.get("inertia")
        >>> require_names(params, True)
        Traceback (most recent call last):
        ...
        ValueError: params['intertia']: no parameter of this system, did you mean 'inertia'?
    """
    for told, missing in list(_misspelled(recorded, "params")):
        if missing:
            raise ValueError(told)
        if known:
            # Where `simulate` is called.
            warnings.warn(told, UserWarning, stacklevel=5)


def _misspelled(recorded: Recorded, where: str) -> Iterator[tuple[str, bool]]:
    """A line on each misspelled key, and whether the key that was meant is missing."""
    asked = {key.lower(): key for key in recorded.asked if isinstance(key, str) and len(key) >= _SHORTEST}
    for key, value in dict.items(recorded):
        if key in recorded.asked:
            if isinstance(value, Recorded):
                yield from _misspelled(value, f"{where}[{key!r}]")
        elif near := _meant(key, asked):
            missing = not dict.__contains__(recorded, near)
            yield f"{where}[{key!r}]: no parameter of this system, did you mean {near!r}?", missing


def _meant(key: Any, asked: dict[str, str]) -> str | None:
    """The name that was asked for and that a key is all but the same as."""
    if not isinstance(key, str):
        return None
    name = key.lower()
    others = [low for low in asked if name == low or not _of_one_family(name, low)]
    near = difflib.get_close_matches(name, others, n=1, cutoff=_cutoff(name))
    return asked[near[0]] if near else None


def _cutoff(name: str) -> float:
    return _ALIKE if len(name) > _SHORT else _ALIKE_IF_SHORT


def _of_one_family(name: str, other: str) -> bool:
    """Whether they differ by a number, by another word behind an underscore, or by a word more.

    Example:
        >>> _of_one_family("e_wall1", "e_wall2"), _of_one_family("e_wall", "e_floor"), _of_one_family("mass2", "mass")
        (True, True, True)
        >>> _of_one_family("e_wall", "e_wal"), _of_one_family("masss", "mass")
        (False, False)
    """
    short, long = sorted((name, other), key=len)
    if long.startswith(f"{short}_") or long.endswith(f"_{short}"):
        return True
    for suffix in _SUFFIXES:
        (stem, end), (same, another) = (
            (text[: at.start()], at[0]) for text in (name, other) if (at := suffix.search(text))
        )
        if stem == same and not difflib.get_close_matches(end, [another], cutoff=_cutoff(end)):
            return True
    return False
