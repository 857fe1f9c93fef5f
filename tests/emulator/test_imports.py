"""The emulator works where only NumPy is: no simulator, no click, no drawing."""

import subprocess
import sys

from tests.emulator.kernels import PRODUCER_ARRIVES, ring
from tests.packaging.project import ROOT

ALONE = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in {"numpy", "fa4kernel"} and top not in sys.stdlib_module_names:
            raise ModuleNotFoundError(f"No module named {name!r} (blocked)", name=name)

root, path = sys.argv[1:]
sys.path.insert(0, root)
sys.meta_path.insert(0, Blocker())
import numpy as np
from fa4kernel.emulator import DeadlockError, Launch, emulate
from fa4kernel.emulator.inspection.report import inspect
from fa4kernel.emulator.inspection.template import template

text = open(path).read()
launch = Launch(grid=(1, 1, 1), block=(64, 1, 1), arguments=[np.zeros(1, np.uint32), 5, None])
emulate(text, launch)
template(inspect(text)[0])
try:
    emulate(text.replace(%r, ""), launch, checks="off")
except DeadlockError as error:
    print(error.waits[0].on)
"""


def test_the_emulator_runs_inspects_and_diagnoses_with_numpy_alone(tmp_path):
    path = tmp_path / "ring.ptx"
    path.write_text(ring(tmp_path))
    result = subprocess.run(
        [sys.executable, "-I", "-c", ALONE % PRODUCER_ARRIVES, str(ROOT), str(path)],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "ring.empty[0]"
