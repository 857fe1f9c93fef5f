"""What somebody types to see the same run again, event for event."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

#: What a run depends on besides the kernel and its launch, and what is usual.
USUAL: Mapping[str, Any] = {
    "schedule": "lockstep",
    "checks": "default",
    "arithmetic": "fast",
    "resident_ctas": 32,
    "processes": 1,
    "most_steps": None,
}


def python_call(**given: Any) -> str:
    """The call of :func:`fa4kernel.emulator.emulate`; what is usual is left out.

    >>> python_call(schedule=3, checks="default", processes=2)
    'emulate(ptx, launch, schedule=3, processes=2)'
    """
    options = {"schedule": given.get("schedule", "lockstep"), **_unusual(given)}
    return f"emulate(ptx, launch, {', '.join(f'{k}={v!r}' for k, v in options.items())})"


def command(file: str, launch: str, **given: Any) -> str:
    """The command line, ready for a shell.

    >>> command("my kernel.ptx", "launch.py", schedule="delay tma", checks="default")
    "fa4kernel emulate 'my kernel.ptx' --launch launch.py --schedule 'delay tma' --checks default"
    """
    options = {
        "launch": launch,
        "schedule": given.get("schedule", "lockstep"),
        "checks": given.get("checks", "default"),
        **_unusual(given),
    }
    words = [f"--{name.replace('_', '-')} {shlex.quote(str(v))}" for name, v in options.items()]
    return " ".join(["fa4kernel emulate", shlex.quote(file), *words])


def _unusual(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: given[name] for name in USUAL if name in given and given[name] != USUAL[name]}
