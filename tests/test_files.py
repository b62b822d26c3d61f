import os

import pytest

from diffcontact.files import write_atomically


def test_the_folder_is_made_and_the_text_written(tmp_path):
    write_atomically(tmp_path / "a" / "b.txt", "e = 0.8\n")
    assert (tmp_path / "a" / "b.txt").read_text() == "e = 0.8\n"


def test_an_interruption_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "result.json"
    write_atomically(path, "old")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["result.json"]
