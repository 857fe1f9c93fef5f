"""What our kernel executes for a block of keys, held against its configuration."""

import pytest

pytest.importorskip("cutlass", reason="needs the CuTe DSL: pip install 'fa4sim[kernel]'")

from fa4kernel.code import ptxas
from fa4kernel.code.comparison import Tools, look
from fa4kernel.code.kernels import config_of, ours
from fa4kernel.code.measure import slots
from fa4kernel.code.shapes import BLOCK, SHAPES
from fa4kernel.forward.config import (
    CORRECTION_WARPS,
    EPILOGUE_WARP,
    FRAGMENT,
    MMA_WARP,
    TILE,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=SHAPES.values(), ids=SHAPES)
def shape(request):
    return request.param


@pytest.fixture(scope="module")
def code(shape):
    return look(ours(shape), shape, Tools.found())


@pytest.fixture
def config(shape):
    return config_of(shape)


def test_roles_have_the_warps_and_registers_of_the_configuration(code, config):
    roles = {role.name: role for role in code.measured.roles}
    wanted = {
        "softmax": tuple(range(4 * config.q_stages)), "correction": tuple(CORRECTION_WARPS),
        "mma": (MMA_WARP,), "epilogue": (EPILOGUE_WARP,), "load": tuple(config.load_warps),
    }  # fmt: skip
    if config.epilogue != "tma":
        del wanted["epilogue"]
    assert {name: role.warps for name, role in roles.items()} == wanted
    assert roles["softmax"].registers == config.registers_softmax
    assert roles["correction"].registers == config.registers_correction
    assert roles["mma"].registers == config.registers_other


def test_a_softmax_step_is_that_of_the_configuration(code, config):
    step = code.measured.role("softmax").step
    emulated = sum(
        config.emulated(fragment, column)
        for fragment in range(BLOCK // FRAGMENT)
        for column in range(FRAGMENT)
    )
    assert step["MUFU"] == BLOCK - emulated + 1  # and the factor for O
    assert step["conversion"] == BLOCK / 2
    assert step["packed FMA"] == BLOCK + 6 * emulated / 2
    assert code.measured.role("softmax").rescaled == step


def test_every_step_is_the_same_and_all_warps_of_a_role_agree(code, config):
    for role in code.measured.roles:
        assert role.even
        assert role.exact or (config.uneven_kv_ring and role.name in ("load", "mma"))


def test_the_units_get_the_work_of_the_problem(code, config, shape):
    rows = TILE * config.q_stages * shape.ctas
    work, tile = code.measured.step, code.measured.tile
    assert work["flops"] == 2 * rows * BLOCK * (shape.head_dim + shape.head_dim_v)
    read = config.element_bytes * BLOCK * (shape.head_dim + shape.head_dim_v)
    by_threads = config.kv_load == "cp_async"
    assert (work["loaded"], work["copied"]) == ((0, read) if by_threads else (read, 0))
    stored = 2 * rows * shape.head_dim_v if config.epilogue == "tma" else 0
    assert tile["stored"] == stored


def test_the_correction_multiplies_only_where_it_rescales(code, config, shape):
    role = code.measured.role("correction")
    assert "TMEM load" not in role.step
    assert role.rescaled["packed FMA"] == config.q_stages * shape.head_dim_v / 2


def test_weights_give_the_length_of_the_softmax_loop_in_machine_code(code, config, shape):
    if not code.loops:
        pytest.skip("needs ptxas and nvdisasm")
    loads = set() if config.kv_load == "cp_async" else {"load"}  # whose loop has no TMA
    assert set(code.loops) == {"softmax", "mma"} | loads
    step, loop = slots(code.measured.role("softmax").step), code.loops["softmax"]
    moves = BLOCK / 4 if config.is_fp8 and config.pair else 0  # that ptxas makes for FP8's P
    assert step == pytest.approx(loop.instructions - loop.spills - moves, rel=0.03)


@pytest.mark.skipif(ptxas.find() is None, reason="no ptxas here")
def test_nothing_is_spilled(code):
    assert not code.assembly.spills
