"""``ldmatrix``, ``stmatrix``, ``movmatrix`` (PTX ISA 9.7.14.5.15 to .17)."""

import numpy as np

from tests.emulator.machine.case import Case

_T = np.arange(32, dtype=np.uint32)
#: Four matrices of 8 x 8 elements, all different, row by row.
_MATRICES = np.arange(256, dtype=np.uint16).reshape(4, 8, 8)

#: The input in shared memory, a word for each thread and matrix; %a2: row t of the 32.
_STORED = """mad.lo.u32 %a3, t, 4, base;
        mul.wide.u32 %d1, t, 4;
        add.u64 %d1, src, %d1;
        ld.global.u32 %a4, [%d1]; st.shared.u32 [%a3], %a4;
        ld.global.u32 %a4, [%d1+128]; st.shared.u32 [%a3+128], %a4;
        ld.global.u32 %a4, [%d1+256]; st.shared.u32 [%a3+256], %a4;
        ld.global.u32 %a4, [%d1+384]; st.shared.u32 [%a3+384], %a4;
        bar.warp.sync 0xffffffff;
        mad.lo.u32 %a2, t, 16, base;
        """


def _fragments(matrices: np.ndarray, transposed: bool) -> np.ndarray:
    """Words of each thread: of matrix i the elements (t/4, 2(t%4)) and its neighbour."""
    found = np.zeros((32, len(matrices)), np.uint32)
    for t in range(32):
        for i, matrix in enumerate(matrices):
            m = matrix.T if transposed else matrix
            low, high = int(m[t // 4, 2 * (t % 4)]), int(m[t // 4, 2 * (t % 4) + 1])
            found[t, i] = low | high << 16
    return found


def _load(count: int, transposed: bool) -> Case:
    registers = ", ".join(f"%a{10 + i}" for i in range(count))
    trans = ".trans" if transposed else ""
    form = f"v{count}.u32 [mine], {{{registers}}}" if count > 1 else "u32 [mine], %a10"
    return Case(
        f"ldmatrix.x{count}{trans}",
        _STORED
        + f"""ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{registers}}}, [%a2];
        st.global.{form};""",
        _fragments(_MATRICES[:count], transposed),
        _MATRICES,
        words=count,
        shared=512,
    )


def _store(count: int, transposed: bool) -> Case:
    registers = ", ".join(f"%a{10 + i}" for i in range(count))
    loads = "".join(f"ld.global.u32 %a{10 + i}, [%d2+{4 * i}];" for i in range(count))
    trans = ".trans" if transposed else ""
    return Case(
        f"stmatrix.x{count}{trans}",
        f"""mul.wide.u32 %d2, t, {4 * count};
        add.u64 %d2, src, %d2;
        {loads}
        mad.lo.u32 %a2, t, 16, base;
        stmatrix.sync.aligned.m8n8.x{count}{trans}.shared::cta.b16 [%a2], {{{registers}}};
        bar.warp.sync 0xffffffff;
        mad.lo.u32 %a3, t, {4 * count}, base;
        """
        + "".join(
            f"ld.shared.u32 %a4, [%a3+{4 * i}]; st.global.u32 [mine+{4 * i}], %a4;"
            for i in range(count)
        ),
        _MATRICES[:count],
        _fragments(_MATRICES[:count], transposed),
        words=count,
        shared=512,
    )


CASES = (
    *(_load(count, transposed) for count in (1, 2, 4) for transposed in (False, True)),
    *(_store(count, transposed) for count in (1, 2, 4) for transposed in (False, True)),
    Case(
        "ldmatrix takes its rows in any order",
        _STORED
        + """xor.b32 %a2, %a2, 112;
        ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%a10}, [%a2];
        st.global.u32 [mine], %a10;""",
        _fragments(_MATRICES[:1, ::-1], False),
        _MATRICES,
        shared=512,
    ),
    Case(
        "ldmatrix from a generic address",
        _STORED
        + """cvt.u64.u32 %d3, %a2;
        cvta.shared.u64 %d3, %d3;
        ldmatrix.sync.aligned.m8n8.x1.b16 {%a10}, [%d3];
        st.global.u32 [mine], %a10;""",
        _fragments(_MATRICES[:1], False),
        _MATRICES,
        shared=512,
    ),
    Case(
        "movmatrix transposes",
        """mul.wide.u32 %d1, t, 4;
        add.u64 %d1, src, %d1;
        ld.global.u32 %a10, [%d1];
        movmatrix.sync.aligned.m8n8.trans.b16 %a11, %a10;
        st.global.u32 [mine], %a11;""",
        _fragments(_MATRICES[:1], True),
        _fragments(_MATRICES[:1], False),
    ),
)
