"""Entry point of the `fa4sim` command and of `python -m fa4sim`.

The library needs NumPy and SimPy only, so the command must be able to say which extra it lacks.
"""

import sys
from importlib.util import find_spec


def main() -> int:
    """Run the command line; return 2, with one line on stderr, when click is not installed."""
    if find_spec("click") is None:
        print(
            "fa4sim: the command line needs click; install it with: pip install 'fa4sim[cli]'",
            file=sys.stderr,
        )
        return 2
    from fa4sim.cli import main as command

    command(prog_name="fa4sim")  # leaves with the command's own exit code
    return 0


if __name__ == "__main__":
    sys.exit(main())
