"""Where the project's files are, and which modules it has; no package of ours is imported here."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def modules(package: str = "fa4sim", root: Path = ROOT) -> dict[str, Path]:
    """Dotted name and file of every module of a package; packages go by their own name."""
    found = {}
    for path in sorted((root / package).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found
