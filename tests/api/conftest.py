"""Running the command inside the test's process."""

from tests.emulator.cli.conftest import fa4kernel as fa4kernel
