"""The life of one tile."""

import pytest

from fa4sim.views import alt_text, tile_life


def life(trace, **which):
    lives = trace.life.where(cta=0, **which)
    return next(lives.rows())


def lane_names(figure) -> list[str]:
    return [label.get_text() for label in figure.axes[0].get_yticklabels()]


@pytest.mark.parametrize("tensor", ["Q", "K", "V", "S", "P", "O"])
def test_every_tensor_has_a_life(trace, tensor):
    figure = tile_life(trace, tensor)
    assert len(figure.axes[0].collections) > 2
    assert alt_text(figure)


def test_k3_comes_through_its_slot_to_qk(causal):
    figure = tile_life(causal)
    row = life(causal, tensor="K", block=3)
    alt = alt_text(figure)
    assert alt.startswith(f"The life of K₃: global memory → {row['slot']} → QK.")
    assert f"is given {row['slot']} at {row['birth']:,}" in alt
    (load,) = causal.span.where(role="tma", op="load K", block=3).rows()
    assert f"{load['end'] - row['birth']:,} cycles" in alt and f"at {load['end']:,}" in alt
    assert f"from {row['first_use']:,} to {row['last_use']:,} (2 runs of QK)" in alt
    assert f"free again at {row['death']:,}, after {row['death'] - row['birth']:,} cycles" in alt
    assert lane_names(figure) == ["load", "tma", f"SMEM slot {row['slot']}", "mma", "tensor"]


def test_v_is_read_by_pv_in_two_runs_per_stage(causal):
    assert "(4 runs of PV)" in alt_text(tile_life(causal, "V", 5))


def test_scores_become_p_over_their_upper_half(causal):
    figure = tile_life(causal, "S", 4, stage=1)
    s, p = (life(causal, tensor=t, block=4, stage=1) for t in "SP")
    alt = alt_text(figure)
    assert f"{s['slot']}, complete at {s['birth']:,}" in alt
    assert f"softmax1 read it from {s['first_use']:,} to {s['death']:,}" in alt
    assert f"({p['slot']}), is stored from {p['birth']:,} on" in alt
    assert f"PV reads it from {p['first_use']:,} to {p['death']:,}" in alt
    assert f"from scores to consumed: {p['death'] - s['birth']:,} cycles" in alt
    assert [name for name in lane_names(figure) if name.startswith("softmax1")] == [
        f"softmax1, warp {w}" for w in (4, 5, 6, 7)
    ]
    assert alt_text(tile_life(causal, "P", 4, stage=1)) == alt


def test_o_leaves_through_shared_memory(pair):
    figure = tile_life(pair, "O", stage=1, cta=1)
    alt = alt_text(figure)
    (row,) = pair.life.where(cta=1, tensor="O", space="smem", stage=1).rows()
    assert f"it lies in sO[1] from {row['birth']:,} to {row['death']:,}" in alt
    assert "after 8 K/V blocks" in alt
    assert lane_names(figure)[-1] == "tma_store"


def test_the_default_is_the_block_nearest_3(one_query):
    assert "The life of K₁" in alt_text(tile_life(one_query))


@pytest.mark.parametrize(
    "which, message",
    [
        ({"tensor": "X"}, "tensor='X' must be one of Q, K, V, S, P, O"),
        ({"block": 99}, r"block=99 has no K in CTA 0 of this trace; there is block 0, 1, 2"),
        ({"tile": 5}, "tile=5 has no K in CTA 0 of this trace; there is tile 0"),
        ({"tensor": "Q", "stage": 2}, "stage=2 has no Q .* there is stage 0, 1"),
        ({"cta": 3}, "cta=3 is not in this trace; it has CTA 0"),
    ],
)
def test_a_tile_that_is_not_there_is_refused_by_name(causal, which, message):
    with pytest.raises(ValueError, match=message):
        tile_life(causal, **which)


def test_a_trace_without_lives_says_so(ticks):
    with pytest.raises(ValueError, match="no life of K in smem"):
        tile_life(ticks)
