"""Which tile a TMA box is, by its coordinates; and what lies where."""

from __future__ import annotations

import numpy as np
import pytest

from fa4kernel.crosscheck.places import Places
from fa4kernel.crosscheck.tensors import Tensors, rows_left
from fa4kernel.emulator import TensorMap
from fa4sim.specs import B200, Design, Problem


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.uint16)


def test_a_box_of_a_batch_names_sequence_head_and_row() -> None:
    q, k = zeros(2, 500, 4, 64), zeros(2, 700, 4, 64)
    tensors = Tensors(q, k, zeros(2, 700, 4, 64), zeros(2, 500, 4, 64))
    of_q = TensorMap.of(q, (3, 1, 2, 0), (64, 128, 1, 1), "128B", dtype="bf16")
    of_k = TensorMap.of(k, (3, 1, 2, 0), (64, 128, 1, 1), "128B", dtype="bf16")
    assert (tensors.name(of_q), tensors.name(of_k)) == ("Q", "K")
    assert tensors.label(of_q, (0, 384, 3, 1)) == (1, 3, 384)
    assert tensors.label(of_k, (0, 640, 2, 0)) == (0, 2, 5)
    assert tensors.label(of_k, (0, 704, 2, 0)) == (0, 2, 5)  # the second half, of a pair


def test_a_box_of_packed_heads_names_the_group_and_the_packed_row() -> None:
    q = zeros(2, 100, 8, 64)
    tensors = Tensors(q, zeros(2, 100, 2, 64), zeros(2, 100, 2, 64), zeros(2, 100, 8, 64), ratio=4)
    view = q.reshape(2, 100, 2, 4, 64)
    of_q = TensorMap.of(view, (4, 3, 1, 2, 0), (64, 4, 32, 1, 1), "128B", dtype="bf16")
    assert tensors.name(of_q) == "Q"
    assert tensors.label(of_q, (0, 0, 64, 1, 1)) == (1, 1, 256)


def test_a_box_of_packed_sequences_counts_from_its_sequence() -> None:
    q = zeros(430, 2, 64)
    starts = np.array([0, 300, 430], np.int32)
    tensors = Tensors(q, q.copy(), q.copy(), q.copy(), starts, starts)
    of_q = TensorMap.of(q, (2, 0, 1), (64, 128, 1), "128B", dtype="bf16")
    assert tensors.label(of_q, (0, 256, 1)) == (0, 1, 256)
    assert tensors.label(of_q, (0, 428, 0)) == (1, 0, 128)
    # The second tile of the first sequence begins past its end: where, only the first can tell.
    assert tensors.label(of_q, (0, 384, 1), within=0) == (0, 1, 384)


def test_a_box_of_a_page_names_the_sequence_that_has_it_and_the_block() -> None:
    k, table = zeros(7, 128, 2, 64), np.array([[4, 0], [6, 2]], np.int32)
    tensors = Tensors(zeros(2, 9, 2, 64), k, k.copy(), zeros(2, 9, 2, 64), page_table=table)
    of_k = TensorMap.of(k, (3, 1, 2, 0), (64, 128, 1, 1), "128B", dtype="bf16")
    assert tensors.label(of_k, (64, 0, 1, 2)) == (1, 1, 1)
    assert tensors.label(of_k, (0, 0, 0, 4)) == (0, 0, 0)


def test_bytes_of_pages_name_tensor_sequence_head_and_block() -> None:
    k, table = zeros(30, 16, 2, 64), np.arange(20, dtype=np.int32)[::-1].reshape(2, 10)
    tensors = Tensors(zeros(2, 9, 2, 64), k, k.copy(), zeros(2, 9, 2, 64), page_table=table)
    pages, rows, heads, _ = k.strides
    memory = k.view(np.uint8).reshape(-1)
    offsets = np.array([19 * pages + 3 * rows + heads, 12 * pages + heads + 16])
    assert tensors.rows_at(memory, offsets) == {("K", (0, 1, 0))}  # first and eighth page of 0
    assert tensors.rows_at(memory, np.array([11 * pages])) == {("K", (0, 0, 1))}
    assert tensors.rows_at(memory, np.array([0])) == {("K", (1, 0, 1))}
    assert tensors.rows_at(zeros(9).view(np.uint8), np.array([0])) == set()


def test_bytes_of_q_name_the_tile_of_packed_rows() -> None:
    q, k = zeros(2, 100, 6, 64), zeros(2, 9, 2, 64)
    tensors = Tensors(q, k, k.copy(), q.copy(), ratio=3)
    whole, rows, heads, _ = q.strides
    memory = q.view(np.uint8).reshape(-1)
    assert tensors.rows_at(memory, np.array([whole + 43 * rows + 4 * heads + 16])) == {
        ("Q", (1, 1, 128))  # token 43, head 1 of group 1: row 130
    }
    starts = np.array([0, 30, 100], np.int32)
    flat = Tensors(q[0], k[0], k[0].copy(), q[0].copy(), starts, starts, ratio=3)
    assert flat.rows_at(memory[:whole], np.array([72 * rows, 73 * rows])) == {
        ("Q", (1, 0, 0)), ("Q", (1, 0, 128))
    }  # fmt: skip


def test_a_map_of_another_array_has_no_name() -> None:
    q = zeros(1, 128, 1, 64)
    tensors = Tensors(q, q.copy(), q.copy(), q.copy())
    other = TensorMap.of(q.copy(), (3, 1, 2, 0), (64, 128, 1, 1), "128B", dtype="bf16")
    assert tensors.name(other) is None


def test_a_stride_that_the_array_has_not_is_refused() -> None:
    k = zeros(1, 256, 2, 64)
    tensors = Tensors(k.copy(), k, k.copy(), k.copy())
    odd = TensorMap(k, dims=(64, 4), strides=(160,), box=(64, 4), dtype="bf16", swizzle="128B")
    with pytest.raises(ValueError, match="a stride of 160 bytes"):
        tensors.label(odd, (0, 1))


def test_a_warp_stores_the_rows_that_the_sequence_has() -> None:
    problem = Problem(heads=2, seqlens_q=(300, 17), seqlens_k=(300, 250))
    design = Design.for_problem(problem, B200)
    rows = [rows_left(problem, design, (0, 0, 256), lane) for lane in range(4)]
    assert rows == [32, 12, 0, 0]
    assert rows_left(problem, design, (1, 0, 128), 0) == 0


def test_pieces_of_one_tile_are_one_life_with_its_place_in_the_region() -> None:
    places = Places()
    places.put("K", 0, "sKV[0]", (0, 0, 1), (4096, 8192), 1)
    places.put("K", 0, "sKV[0]", (0, 0, 1), (8192, 12288), 2)
    places.put("V", 0, "sKV[1]", (0, 0, 1), (12288, 20480), 3)
    places.put("S", 0, "S0", (0, 0, 0, 1), (0, 128), 4)
    held = places.at(0, 9000, "KV")
    assert held is not None and held.tensor == "K" and places.at(0, 9000, "Q") is None
    held.use(5)
    places.end(0, "sKV[0]", 6)
    assert places.held(0, "sKV[0]") is None
    key, value, scores = places.lives()
    assert (key.slot, key.offset, key.size) == ("sKV[0]", 0, 8192)
    assert (key.birth, key.first_use, key.last_use, key.death) == (1, 5, 5, 6)
    assert (value.offset, value.size, value.death) == (8192, 8192, -1)
    assert (scores.slot, scores.offset, scores.size) == ("columns 0-127", -1, -1)
