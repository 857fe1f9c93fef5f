"""The memory map."""

import numpy as np
import pytest

from fa4sim.views import alt_text, memory_map
from fa4sim.views.memory_map import (
    column_range,
    columns_in_use,
    occupied_columns,
    smem_slots,
    tmem_columns,
)
from fa4sim.views.scope import scope


def labels(axes) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def test_every_slot_has_a_lane(trace):
    figure = memory_map(trace, 0, trace.end)
    design = trace.meta["design"]
    names = [label.split(",")[0] for label in labels(figure.axes[0])]
    for i in range(design["kv_stages"]):
        assert f"sKV[{i}]" in names
    for stage in range(design["q_stages"]):
        assert {f"sQ[{stage}]", f"sO[{stage}]"} <= set(names)
    assert names == sorted(names, key=lambda n: ("sQ sKV sO".index(n.split("[")[0]), n))


def test_slots_carry_their_sizes(causal):
    assert "sKV[0], 32 KiB" in labels(memory_map(causal).axes[0])


def test_p_lies_over_the_upper_half_of_s(causal):
    s = column_range(causal.life.where(tensor="S", stage=1).unique("slot")[0])
    p = column_range(causal.life.where(tensor="P", stage=1).unique("slot")[0])
    assert s == (128, 256) and p == (192, 256)
    edges = [float(text) for text in labels(memory_map(causal).axes[1])]
    assert {0, 64, 128, 192, 256, 384, 512} <= set(edges)


def test_s_and_p_of_a_stage_are_never_there_at_once(trace):
    for stage in range(trace.meta["design"]["q_stages"]):
        lives = trace.life.where(cta=0, stage=stage, space="tmem", tensor=("S", "P"))
        order = np.argsort(lives["birth"])
        assert np.all(lives["birth"][order][1:] >= lives["death"][order][:-1])


def test_the_description_counts_what_the_trace_holds(trace):
    part = scope(trace, 1000, 9000)
    alt = alt_text(memory_map(trace, 1000, 9000))
    lives = part.rows("life", "birth", "death")
    k, s = lives.where(tensor="K", space="smem"), lives.where(tensor="S", space="tmem")
    assert f"{len(k)} of K" in alt
    assert f"{len(s)} of S in columns 0-127" in alt
    assert f"{tmem_columns(trace)} columns" in alt
    assert f"on average {columns_in_use(part):.0f} columns" in alt
    assert all(name in alt for name in smem_slots(part))


def test_numbers_are_explained_in_the_words_of_the_glossary(causal):
    words = "\n".join(text.get_text() for text in memory_map(causal).texts)
    assert "Q₀: of Q tile 0" in words and "Q stage" not in words + alt_text(memory_map(causal))


def test_columns_in_use_are_the_integral_over_lives(causal):
    part = scope(causal, 0, causal.end)
    lives = causal.life.where(space="tmem")
    # No two lives of this trace share a column at a time, so their areas add up.
    widths = np.array([b - a for a, b in map(column_range, lives.text("slot"))])
    area = int((widths * (lives["death"] - lives["birth"])).sum())
    assert columns_in_use(part) == pytest.approx(area / causal.end)
    times, used = occupied_columns(lives, 512)
    assert used.max() <= 512 and used[-1] == 0 and np.all(np.diff(times) > 0)


def test_a_column_counts_once_however_many_lives_name_it(ticks):
    for first, last, birth, death in ((0, 127, 0, 10), (64, 127, 5, 20)):
        ticks.add("life", sm=0, cta=3, tensor="S", space="tmem", slot=f"columns {first}-{last}",
                  stage=0, birth=birth, first_use=birth, last_use=death, death=death)  # fmt: skip
    times, used = occupied_columns(ticks.life, 512)
    assert list(zip(times, used, strict=True)) == [(0, 128), (5, 128), (10, 64), (20, 0)]
    assert "2 of S in columns 0-127 and columns 64-127" in alt_text(memory_map(ticks, 0, 100))


def test_nothing_to_draw_is_refused(ticks, causal):
    with pytest.raises(ValueError, match="nothing lies in SMEM or TMEM in CTA 3, ticks 0 to 125"):
        memory_map(ticks)
    with pytest.raises(ValueError, match="'columns x' does not name TMEM columns"):
        column_range("columns x")
    with pytest.raises(ValueError, match="holds nothing"):
        memory_map(causal, 10**8)
