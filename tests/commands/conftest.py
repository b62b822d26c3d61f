import pytest

from diffcontact.commands.cli import main
from diffcontact.scene.study import Study


@pytest.fixture(scope="session")
def demonstrated(tmp_path_factory):
    """The folder of the demo, and its fit."""
    folder, fits, fit = tmp_path_factory.mktemp("demo"), [], Study.fit
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Study, "fit", lambda study: fits.append(fit(study)) or fits[-1])
        assert main(["demo", "--out", str(folder)]) == 0
    return folder, *fits


@pytest.fixture
def demo(demonstrated):
    return demonstrated[0]


@pytest.fixture
def done(demonstrated):
    return demonstrated[1]
