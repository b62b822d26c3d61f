"""The gallery's pictures: one is made here, and all that are made are there."""

import pictures
import pytest


def test_a_picture_is_made(tmp_path):
    (file,) = pictures.main(["spring", "--out", str(tmp_path)])
    assert file.read_bytes()[:4] == b"\x89PNG"


def test_every_picture_is_in_the_gallery():
    there = {path.stem for path in (pictures.HERE / "pictures").iterdir()}
    assert there == set(pictures.PICTURES)


def test_a_picture_that_there_is_not(tmp_path):
    with pytest.raises(SystemExit):
        pictures.main(["sprung", "--out", str(tmp_path)])
