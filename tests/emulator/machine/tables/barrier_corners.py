"""``mbarrier`` at its corners (PTX ISA 9.7.13.15): parities, counts, bytes below zero."""

import numpy as np

from tests.emulator.machine.case import Case

_NOTHING = np.zeros(1, np.uint32)


def _one(name: str, count: int, *steps: str, expected: tuple[int, ...]) -> Case:
    """The first thread on a barrier of ``count``, in steps, some of which store what they see.

    ``test P`` is test_wait.parity, ``token N`` test_wait with the state in ``%dN``, ``pending N``
    the pending count of that state, ``sync`` brings the warp together; anything else is PTX.
    """
    body = f"""setp.eq.u32 %p9, t, 0;
        @%p9 mbarrier.init.shared::cta.b64 [base], {count};
        bar.warp.sync 0xffffffff;
        """
    stored = 0
    for step in steps:
        word, _, rest = step.partition(" ")
        if word == "test":
            body += f"@%p9 mbarrier.test_wait.parity.shared::cta.b64 %p1, [base], {rest};\n"
        elif word == "token":
            body += f"@%p9 mbarrier.test_wait.shared::cta.b64 %p1, [base], %d{rest};\n"
        elif word == "pending":
            body += f"@%p9 mbarrier.pending_count.b64 %a2, %d{rest};\n"
        elif word == "sync":
            body += "bar.warp.sync 0xffffffff;\n"
            continue
        else:
            body += f"@%p9 mbarrier.{step};\n"
            continue
        if word != "pending":
            body += "@%p9 selp.u32 %a2, 1, 0, %p1;\n"
        body += f"@%p9 st.global.u32 [dst+{4 * stored}], %a2;\n"
        stored += 1
    assert stored == len(expected), name
    return Case(name, body, np.array(expected, np.uint32), _NOTHING, shared=16)


_ARRIVE = "arrive.shared::cta.b64 _, [base]"
_STATE = "arrive.shared::cta.b64 %d{}, [base]"

CASES = (
    _one(
        "on a fresh barrier parity 1 has passed and parity 0 has not",
        1, "test 1", "test 0", expected=(1, 0),
    ),
    _one(
        "after one phase parity 0 has passed and parity 1 has not",
        1, _ARRIVE, "test 0", "test 1", expected=(1, 0),
    ),
    _one(
        "after two phases it is as at first",
        1, _ARRIVE, _ARRIVE, "test 1", "test 0", expected=(1, 0),
    ),
    _one(
        "an arrival may count for several",
        7, "arrive.shared::cta.b64 _, [base], 3", "test 0",
        "arrive.shared::cta.b64 _, [base], 4", "test 0", "test 1", expected=(0, 1, 0),
    ),
    _one(
        "the largest count",
        (1 << 20) - 1, "arrive.shared::cta.b64 _, [base], 1048574", "test 0", _ARRIVE, "test 0",
        expected=(0, 1),
    ),
    _one(
        "the state of the arrival that completes a phase is that phase's, with one pending",
        2, _STATE.format(1), _STATE.format(2), "token 1", "token 2", "pending 1", "pending 2",
        expected=(1, 1, 2, 1),
    ),
    _one(
        "a state of the phase under way has not passed",
        2, _STATE.format(1), "token 1", _ARRIVE, "token 1", expected=(0, 1),
    ),
    _one(
        "bytes hold back a phase with no arrivals left, and the last of them ends it",
        1, "expect_tx.relaxed.cta.shared::cta.b64 [base], 32", _ARRIVE, "test 0",
        "complete_tx.relaxed.cta.shared::cta.b64 [base], 16", "test 0",
        "complete_tx.relaxed.cta.shared::cta.b64 [base], 16", "test 0", "test 1",
        expected=(0, 0, 1, 0),
    ),
    _one(
        "more may be expected while bytes hold back a phase",
        1, "arrive.expect_tx.shared::cta.b64 _, [base], 16",
        "expect_tx.relaxed.cta.shared::cta.b64 [base], 16",
        "complete_tx.relaxed.cta.shared::cta.b64 [base], 16", "test 0",
        "complete_tx.relaxed.cta.shared::cta.b64 [base], 16", "test 0", expected=(0, 1),
    ),
    _one(
        "bytes balance at zero below zero, and do not end a phase that waits for arrivals",
        2, "complete_tx.relaxed.cta.shared::cta.b64 [base], 48", "test 0",
        "arrive.expect_tx.shared::cta.b64 _, [base], 16", "test 0",
        "expect_tx.relaxed.cta.shared::cta.b64 [base], 32", "test 0", _ARRIVE, "test 0",
        expected=(0, 0, 0, 1),
    ),
    _one(
        "bytes below zero hold a phase back as well",
        1, "complete_tx.relaxed.cta.shared::cta.b64 [base], 48", _ARRIVE, "test 0",
        "expect_tx.relaxed.cta.shared::cta.b64 [base], 48", "test 0", expected=(0, 1),
    ),
    _one(
        "the most bytes either way",
        1, "expect_tx.relaxed.cta.shared::cta.b64 [base], 1048575", _ARRIVE, "test 0",
        "complete_tx.relaxed.cta.shared::cta.b64 [base], 1048575", "test 0",
        "complete_tx.relaxed.cta.shared::cta.b64 [base], 1048575",
        "expect_tx.relaxed.cta.shared::cta.b64 [base], 1048575", "test 1", _ARRIVE, "test 1",
        expected=(0, 1, 0, 1),
    ),
    _one(
        "expecting no bytes is an arrival alone",
        1, "arrive.expect_tx.shared::cta.b64 _, [base], 0", "test 0", expected=(1,),
    ),
    _one(
        "a dropped arrival is missing from the next phase only",
        3, "arrive_drop.shared::cta.b64 %d1, [base]", "pending 1",
        "arrive.shared::cta.b64 %d2, [base], 2", "pending 2", "test 0",
        "arrive.shared::cta.b64 %d3, [base]", "pending 3",
        "arrive.shared::cta.b64 %d4, [base]", "pending 4", "test 1",
        expected=(3, 2, 1, 2, 1, 1),
    ),
    _one(
        "arrive_drop may drop several and expect bytes",
        5, "arrive_drop.shared::cta.b64 _, [base], 3",
        "arrive_drop.expect_tx.shared::cta.b64 _, [base], 16", "test 0", _ARRIVE, "test 0",
        "complete_tx.relaxed.cta.shared::cta.b64 [base], 16", "test 0", _ARRIVE, "test 1",
        expected=(0, 0, 1, 1),
    ),
    _one(
        "noComplete arrivals count",
        4, "arrive.noComplete.shared::cta.b64 %d1, [base], 2",
        "arrive.noComplete.shared::cta.b64 %d2, [base], 1", "pending 1", "pending 2", "test 0",
        _ARRIVE, "test 0", expected=(4, 2, 0, 1),
    ),
    _one(
        "a barrier made anew begins with phase 0",
        1, _ARRIVE, "inval.shared::cta.b64 [base]", "init.shared::cta.b64 [base], 2", "sync",
        "test 0", "test 1", _ARRIVE, _STATE.format(1), "pending 1", "test 0", expected=(0, 1, 1, 1),
    ),
)  # fmt: skip
