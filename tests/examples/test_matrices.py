import numpy as np
import pytest

pytest.importorskip("fa4kernel.examples", reason="needs the CuTe DSL: pip install 'fa4sim[kernel]'")

from fa4kernel.emulator.tensor.formats import decode
from fa4kernel.examples import matrices


@pytest.mark.parametrize("columns", [1, 7, 8, 9, 64])
def test_rows_of_a_matrix_begin_at_multiples_of_16_bytes(rng, columns):
    values = rng.integers(-9, 10, (3, columns))
    stored = matrices.matrix(values)
    assert stored.strides[0] % 16 == 0
    assert np.array_equal(decode(stored, "bf16"), values)


def test_values_are_rounded_to_bf16():
    assert decode(matrices.matrix([[1 + 2**-9, 1 + 2**-7]]), "bf16").tolist() == [[1, 1 + 2**-7]]


def test_shapes_that_do_not_fit_are_refused():
    a, b = matrices.matrix(np.ones((4, 8))), matrices.matrix(np.ones((5, 8)))
    assert matrices.check(a, b, matrices.matrix(np.ones((4, 5)))) == (4, 5, 8)
    with pytest.raises(ValueError, match=r"not \(4, 8\), \(5, 8\), \(5, 4\)"):
        matrices.check(a, b, matrices.matrix(np.ones((5, 4))))
    with pytest.raises(ValueError, match=r"A \(m, k\), B \(n, k\)"):
        matrices.check(a, b[:, :7], matrices.matrix(np.ones((4, 5))))


def test_a_ring_has_two_slots_and_fits_into_shared_memory():
    assert matrices.shared_bytes(2, 32_768, 32_768) == 1024 + 3 * 32_768
    matrices.shared_bytes(6, 32_768, 32_768)
    for stages in (1, 7):
        with pytest.raises(ValueError, match=f"stages={stages}: the ring has 2 to 6 slots"):
            matrices.shared_bytes(stages, 32_768, 32_768)
