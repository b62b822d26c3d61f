"""Cases of a test as a text: a case a line, its fields between bars."""

import pytest


def cases(names, text):
    """Parametrise a test by a table whose columns have these names."""
    return pytest.mark.parametrize(names.split(), table(text))


def table(text):
    r"""The rows as tuples of texts; `\n` and `\t` in a field are an end of line and a tab.

    >>> table("a = 1 | a = 0 | expected above 0")
    [('a = 1', 'a = 0', 'expected above 0')]
    """
    return [tuple(map(_field, row.strip().split(" | "))) for row in text.strip().splitlines()]


def _field(text):
    return text.strip().replace("\\n", "\n").replace("\\t", "\t")
