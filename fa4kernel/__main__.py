"""Entry point of the `fa4kernel` command and of `python -m fa4kernel`."""

import sys
from importlib.util import find_spec


def main() -> int:
    """Run the command line; return 2, with one line on stderr, when click is not installed."""
    if find_spec("click") is None:
        print(
            "fa4kernel: the command line needs click; install it with: pip install 'fa4sim[cli]'",
            file=sys.stderr,
        )
        return 2
    from fa4kernel.cli import main as command

    command(prog_name="fa4kernel")  # leaves with the command's own exit code
    return 0


if __name__ == "__main__":
    sys.exit(main())
