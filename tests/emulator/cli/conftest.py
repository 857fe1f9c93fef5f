"""Running the command inside the test's process."""

import pytest
from click.testing import CliRunner

from fa4kernel.cli import main
from tests.cli.conftest import Outcome
from tests.emulator.kernels import PRODUCER_ARRIVES, ring

LAUNCH = """\
import numpy as np
from fa4kernel.emulator import Launch

out = np.zeros(1, np.uint32)


def launch():
    return Launch(grid=(2, 1, 1), block=(64, 1, 1), arguments=[out, 5, None])


def check():
    {check}
"""


@pytest.fixture
def fa4kernel():
    """Run `fa4kernel` with these arguments."""

    def run(*arguments):
        result = CliRunner().invoke(main, [str(argument) for argument in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Outcome(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def kernel(tmp_path):
    """A PTX file with a ring of two slots."""
    path = tmp_path / "ring.ptx"
    path.write_text(ring(tmp_path) + "\0")  # as CuTe DSL leaves it
    return path


@pytest.fixture
def stuck(kernel, tmp_path):
    """The same without the producer's arrivals."""
    path = tmp_path / "stuck.ptx"
    path.write_text(kernel.read_text().replace(PRODUCER_ARRIVES, ""))
    return path


@pytest.fixture
def launch_file(tmp_path):
    """Write a launch file with this in its check."""

    def write(check="assert out[0] == 5", text=LAUNCH):
        path = tmp_path / "launch.py"
        path.write_text(text.replace("{check}", check))
        return path

    return write
