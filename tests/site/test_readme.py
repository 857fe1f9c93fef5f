"""The picture in the README is the one that its command draws today."""

from pathlib import Path

from PIL import Image

from fa4sim import Problem, simulate
from fa4sim.views import alt_text, timeline

ROOT = Path(__file__).resolve().parents[2]


def test_the_picture_is_current():
    run = simulate(Problem(batch=4, heads=1, seqlen_q=256, seqlen_k=1024), scope="cta")
    with Image.open(ROOT / "docs" / "one_cta.png") as picture:
        assert picture.info["Description"] == alt_text(timeline(run.trace))
