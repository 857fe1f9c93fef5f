"""Compiles the variants of all cases into the cache: ``python -m tests.official.compile_all``."""

from fa4kernel.official.compile import compiled, missing
from tests.official.cases import ALL


def main() -> None:
    """Compile each variant once and name those that fail."""
    if reason := missing():
        raise SystemExit(reason)
    variants = {case.variant: case.name for case in ALL}
    for number, (variant, name) in enumerate(variants.items(), 1):
        try:
            kernels = compiled(variant)
        except RuntimeError as error:
            print(f"{number}/{len(variants)} {name}: {error}", flush=True)
        else:
            print(f"{number}/{len(variants)} {name}: {', '.join(kernels)}", flush=True)


if __name__ == "__main__":
    main()
