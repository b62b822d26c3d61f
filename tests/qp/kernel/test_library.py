"""The kernel's machine code on disk: loaded as it was written, and compiled anew where the file is damaged."""

import pytest

pytest.importorskip("numba")
pytestmark = pytest.mark.full

library = pytest.importorskip("diffcontact.qp.kernel.library")

HANDLER = "projections_float32"


@pytest.fixture(scope="module")
def code(kernel_folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DIFFCONTACT_CACHE", kernel_folder)
        return library.kept(HANDLER) or library.keep(HANDLER, library.compiled_anew(HANDLER))


@pytest.fixture
def file(tmp_path, monkeypatch):
    """The place of the code in a folder of its own."""
    monkeypatch.setenv("DIFFCONTACT_CACHE", str(tmp_path))
    return lambda: next(tmp_path.iterdir())


def test_what_was_kept_is_found(code, file):
    assert library.kept(HANDLER) is None
    assert library.keep(HANDLER, code) == code
    assert library.kept(HANDLER) == code


def test_without_a_cache_nothing_is_written(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DIFFCONTACT_CACHE", "off")
    assert library.keep(HANDLER, code) == code
    assert library.kept(HANDLER) is None
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    "damaged",
    [
        lambda kept: bytes([kept[0] ^ 1]) + kept[1:],
        lambda kept: kept[:5000] + bytes([kept[5000] ^ 0x80]) + kept[5001:],
        lambda kept: kept[:-1] + bytes([kept[-1] ^ 1]),
        lambda kept: kept[: len(kept) // 2],
        lambda kept: kept + b"\0",
        lambda kept: b"",
    ],
    ids=["digest", "middle", "last byte", "half of it", "one byte more", "empty"],
)
def test_a_damaged_file_is_compiled_anew(code, file, monkeypatch, damaged):
    library.keep(HANDLER, code)
    sound = file().read_bytes()
    file().write_bytes(damaged(sound))
    compilations = []
    monkeypatch.setattr(library, "compiled_anew", lambda _: compilations.append(1) or code)
    assert library.address(HANDLER) > 0
    assert compilations == [1]
    assert file().read_bytes() == sound
    # The next one finds it whole.
    assert library.address(HANDLER) > 0
    assert compilations == [1]


def test_a_folder_that_cannot_be_written_to_costs_a_compilation_only(code, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DIFFCONTACT_CACHE", str(tmp_path / "file"))
    assert library.keep(HANDLER, code) == code
    assert library.kept(HANDLER) is None


def test_the_name_follows_every_source(code, file, monkeypatch, tmp_path):
    """Other sources, another name: code of another version of the kernel is never loaded."""
    library.keep(HANDLER, code)
    source = tmp_path / "source.py"
    source.write_text("ROUNDS = 41\n")
    monkeypatch.setattr(library, "SOURCES", [*library.SOURCES, source])
    assert library.kept(HANDLER) is None
    assert {"status.py", "rows.py", "projections.py"} <= {path.name for path in library.SOURCES}
    assert all(path.is_file() for path in library.SOURCES)
