import pytest

from diffcontact.commands.cli import main
from diffcontact.host import progress
from diffcontact.scene.study import Study


class Told(progress._Nothing):
    """A display that keeps what stages are called, and what they say before they report."""

    def __init__(self):
        self.stages = []

    def open(self, what, total, before, note):
        self.stages.append((what, note))
        return progress.Stage()


@pytest.fixture(scope="session")
def demonstrated(tmp_path_factory):
    """The folder of the demo, its fit, and the stages that it told."""
    folder, fits, selected, told = tmp_path_factory.mktemp("demo"), [], Study.selected, Told()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Study, "selected", lambda study: fits.append(selected(study)) or fits[-1])
        token = progress._DISPLAY.set(told)
        assert main(["demo", "--out", str(folder)]) == 0
        progress._DISPLAY.reset(token)
    return folder, *(result for _, result in fits), told.stages


@pytest.fixture
def demo(demonstrated):
    return demonstrated[0]


@pytest.fixture
def done(demonstrated):
    return demonstrated[1]
