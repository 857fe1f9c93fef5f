"""A later version of the official package is right, too, with the launches of this one.

``FA4_LATER_PYTHON`` names an interpreter that has it. Between 4.0.0b27 and 4.0.0b36 the forward
kernel changed as follows, as far as a launch or a trace can tell:

- every divisor is passed twice, encoded (12 bytes) and plain (32 bits);
- one Q tile (decoding): S and P alternate between two slots of TMEM, the first product of a block
  is issued before the second one of the block before, V is loaded a block behind K, and correction
  waits for O before it rescales;
- head dim 256 has no kernel of its own any more;
- decoding waits for the last O by parity, after waits that were skipped: only the order in which
  commits land tells it from an earlier one (``commit-order`` under strict checks);
- barriers between warps of different roles are unaligned; the register table is another.
"""

import os

import pytest

from tests.official import cases

LATER = os.environ.get("FA4_LATER_PYTHON")

NAMES = (
    *("pair-WTR", "causal-WR", "d64", "packed-4-causal", "varlen", "e4m3-pair"),
    *("decode", "page-16", "split", "split-varlen-causal"),
)
CASES = [case for case in cases.ALL if case.name in NAMES]


@pytest.mark.official
@pytest.mark.sample(2)
@pytest.mark.skipif(LATER is None, reason="FA4_LATER_PYTHON is not set")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_later_version_is_right(case, seed, official):
    assert not official(case, seed, python=LATER).problems()
