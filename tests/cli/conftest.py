"""Running the command inside the test's process, and reading what it printed."""

import json
from dataclasses import dataclass

import pytest
from click.testing import CliRunner

from fa4sim.cli import main

#: A problem of a few milliseconds: one head, two Q tiles, two K/V blocks.
TINY = ("--batch", "1", "--heads", "1", "--seqlen-q", "256")


@dataclass
class Outcome:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        """Standard output as one JSON object without NaN or Infinity; anything else fails."""

        def refuse(word):
            raise AssertionError(f"{word} is not JSON")

        return json.loads(self.out, parse_constant=refuse)


@pytest.fixture
def fa4sim():
    """Run `fa4sim` with these arguments."""

    def run(*arguments):
        result = CliRunner().invoke(main, [str(argument) for argument in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Outcome(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def tiny():
    """Options of a problem that takes a few milliseconds."""
    return TINY
