import errno
import os
import pwd
from pathlib import Path

import pytest

from diffcontact.host import files
from diffcontact.host.files import cache_folder, open_in_place, write_atomically, write_new


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


@pytest.mark.parametrize("leads", ["to a file", "nowhere"])
@pytest.mark.parametrize("write", [write_atomically, write_new, lambda path, text: open_in_place(path)])
def test_nothing_is_written_at_a_link(leads, write, tmp_path):
    """Neither the link nor the file that it leads to, which is somebody else's."""
    if leads == "to a file":
        (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "link").symlink_to("notes.txt")
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(FileExistsError):
        write(tmp_path / "link", "{}")
    assert sorted(os.listdir(tmp_path)) == before
    assert os.readlink(tmp_path / "link") == "notes.txt"
    assert leads == "nowhere" or (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("write", [write_atomically, write_new])
def test_a_full_disk_leaves_nothing_behind(write, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_write", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*scene.toml'$"):
        write(tmp_path / "scene.toml", "{}")
    assert not os.listdir(tmp_path)


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_name_may_be_as_long_as_the_system_allows(tmp_path):
    for name in ("x" * 255, "é" * 127):
        write_atomically(tmp_path / name, "{}")
        assert (tmp_path / name).read_text() == "{}"


def test_what_is_not_text_is_written_with_what_is(tmp_path):
    write_atomically(tmp_path / "page.html", os.fsdecode(b"run\xff.csv") + " é")
    assert (tmp_path / "page.html").read_bytes() == "run\\udcff.csv é".encode()


def test_a_user_without_a_home_has_no_cache(monkeypatch):
    """In a container: no HOME, and a number that no password file has."""

    def homeless(*_):
        raise KeyError("getpwuid(): uid not found: 4711")

    for name in ("DIFFCONTACT_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", homeless)
    assert cache_folder() is None
    monkeypatch.setenv("DIFFCONTACT_CACHE", "~/programs")
    assert cache_folder() is None
    monkeypatch.setenv("DIFFCONTACT_CACHE", "programs")
    assert cache_folder() == Path("programs")
