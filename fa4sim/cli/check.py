"""``fa4sim check``: does the pipeline compute attention?"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from fa4sim.cli import options
from fa4sim.cli.describe import design_words, problem_words, setup_facts
from fa4sim.cli.errors import (
    BadInput,
    CheckFailed,
    hazard_facts,
    hazardous,
    refusals,
)
from fa4sim.cli.output import note, print_json, say, shows_progress
from fa4sim.numerics import attention_blockwise, attention_float64, gather_pages, round_to
from fa4sim.numerics.paged import PageTable
from fa4sim.simulate import Run, simulate
from fa4sim.specs import FP8, AnyDesign, Design, Problem
from fa4sim.specs.idle import idle_settings, idle_words

#: Largest ‖O − O₆₄‖ / ‖O₆₄‖ that passes. P and O are rounded to the dtype, with a relative error
#: of at most 2⁻⁸ each in bf16, 1.6e-3 in the mean square: together 2.3e-3 on random inputs. fp16
#: has three bits more, so an eighth of that. Of FP8 only P is rounded to it, to 2⁻⁴ or 2⁻³.
LIMITS = {"bf16": 4e-3, "fp16": 5e-4, "e4m3": 0.04, "e5m2": 0.08}

#: Scores (query, key and head) that are computed at most; a million take about half a second.
MOST_SCORES = 2**26
SCORES_PER_SECOND = 2.0e6
#: Elements of Q, K, V and O at most.
MOST_ELEMENTS = 2**27
#: The float64 reference holds a head's scores at once, several times.
MOST_SCORES_PER_HEAD = 2**24

#: Pages that no sequence has: a wrong page number may find one.
SPARE_PAGES = 3

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Inputs:
    """Random Q, K, V and sink logits, values of the problem's dtype.

    Of a problem with pages ``k`` and ``v`` are (pages, page_size, kv_heads, head_dim), and
    ``page_table`` says which pages hold a sequence's keys. ``descales`` are factors of FP8's Q, K
    and V, float32 (3, batch, kv_heads).
    """

    q: Floats
    k: Floats
    v: Floats
    sink: Floats | None
    page_table: PageTable | None = None
    descales: Floats | None = None

    def in_one_piece(self, problem: Problem) -> Inputs:
        """The same with the keys of each sequence behind each other."""
        if self.page_table is None:
            return self
        keys = [problem.lengths(b)[1] for b in range(problem.batch)]
        k, v = (gather_pages(x, self.page_table, keys) for x in (self.k, self.v))
        return Inputs(self.q, k, v, self.sink, descales=self.descales)

    def true_values(self, problem: Problem) -> tuple[Floats, Floats, Floats]:
        """Q, K and V multiplied by their factors; exact if these are powers of two."""
        if self.descales is None:
            return self.q, self.k, self.v
        q, k, v = (factors[:, None, :, None] for factors in self.descales)
        return self.q * q.repeat(problem.group, axis=2), self.k * k, self.v * v


@dataclass(frozen=True)
class Verdict:
    """What the comparison says; ``run`` is the simulated one with its outputs.

    ``rel_err`` is ‖O − O₆₄‖ / ‖O₆₄‖ (Frobenius), ``lse_max_abs_err`` over rows whose LSE is
    finite in the reference (NaN if ours then is not). ``equals_blockwise`` means every bit of O
    and LSE.
    """

    run: Run
    max_abs_err: float
    rel_err: float
    lse_max_abs_err: float
    equals_blockwise: bool
    limit: float

    @property
    def ok(self) -> bool:
        """Bit for bit the blockwise reference, close to float64, and no hazards."""
        return self.equals_blockwise and self.rel_err <= self.limit and not self.run.hazards

    def facts(self) -> dict[str, Any]:
        """As plain data."""
        outputs = self.run.outputs
        assert outputs is not None
        return {
            "max_abs_err": self.max_abs_err,
            "rel_err": self.rel_err,
            "rel_err_limit": self.limit,
            "lse_max_abs_err": self.lse_max_abs_err,
            "equals_blockwise": self.equals_blockwise,
            "ok": self.ok,
            "rescales": outputs.rescales,
            "votes": outputs.votes,
            "hazards": hazard_facts(self.run.hazards),
            "events": self.run.report.events,
        }

    def _lse_words(self) -> str:
        """The LSE's error, or that there is none to tell."""
        error = self.lse_max_abs_err
        if math.isfinite(error):
            return f"{error:.2e}"
        lost = " (tiles of splits that see no key lose their sink, as the published kernel's)"
        problem, design = self.run.problem, self.run.design
        splits = isinstance(design, Design) and design.num_splits > 1
        return f"NOT A NUMBER{lost if problem.sink and splits else ''}"

    def words(self) -> str:
        """Over a few lines."""
        outputs = self.run.outputs
        assert outputs is not None
        bits = "equal, bit for bit" if self.equals_blockwise else "DIFFERENT"
        far = "" if self.rel_err <= self.limit else ": TOO FAR"
        return "\n".join([
            f"blockwise reference (float32, {self.run.problem.dtype}, the kernel's order): {bits}",
            f"float64 reference: relative error {self.rel_err:.2e} of {self.limit:.0e}{far}, "
            f"largest {self.max_abs_err:.2e}, LSE {self._lse_words()}",
            f"output rescales: {outputs.rescales:,} done of {outputs.votes:,} votes",
            f"hazards: {len(self.run.hazards) or 'none'}",
        ])  # fmt: skip


@click.command(
    epilog=options.examples(
        "fa4sim check",
        "fa4sim check --heads 4 --kv-heads 2 --seqlen-q 300 --seqlen-k 700 --causal",
        "fa4sim check --head-dim 64 --window 128,0 --sink --dtype fp16 --json",
        "fa4sim check --seqlen-q 1 --seqlen-k 900 --page-size 16",
        "fa4sim check --seqlen-q 1 --seqlen-k 900 --num-splits 3 --dtype e4m3",
        "fa4sim check --set rescale_threshold=0 --set p_first_columns=128",
        "fa4sim check --break swap_slots:load_KV_full",
    )
)
@options.problem_options(options.SMALL)
@options.machine_option()
@options.set_option()
@options.seed_option()
@options.break_option()
@options.json_option()
def check(as_json: bool, seed: int, **given: Any) -> None:
    """Compute with real arrays and compare with the references.

    Inputs are standard normal numbers drawn with --seed. The output of the simulated warps must
    equal the blockwise reference bit for bit, and the float64 one to 4e-3 (bf16), 5e-4 (fp16), 0.04
    (e4m3) or 0.08 (e5m2) in ‖O − O₆₄‖ / ‖O₆₄‖, and there must be no hazard. FP8 gets factors of
    Q, K and V as well. Otherwise the exit code is 1, or 3 for a hazard or a deadlock.
    """
    request = options.Request.of(given, options.SMALL)
    setup = request.build()
    seconds = check_size(setup.problem)
    if seconds > 5 and shows_progress():
        note(f"computing every score twice; about {seconds:.0f} s")
    started = time.perf_counter()
    verdict = compare_with_references(setup, seed)
    wall_s = time.perf_counter() - started
    idle = idle_settings(request.set_names, [setup], values=True)
    facts = {
        **verdict.facts(), "wall_s": wall_s, "seed": seed, **setup_facts(setup), "idle": idle,
    }  # fmt: skip
    if not as_json:
        say(f"{setup.machine.name}: {problem_words(setup.problem)}")
        say(f"design: {design_words(setup.design)}")
        say(f"{idle_words(idle)}\n" if idle else "")
        say(verdict.words())
        say(f"\n{'ok' if verdict.ok else 'FAILED'} in {wall_s:.1f} s")
    if verdict.run.hazards:
        raise hazardous(verdict.run.hazards, facts)
    if not verdict.ok:
        raise CheckFailed(f"check failed: {failed_because(verdict)}", facts)
    if as_json:
        print_json(facts)


def failed_because(verdict: Verdict) -> str:
    """Why a verdict is not ok, in words."""
    reasons = []
    if not verdict.equals_blockwise:
        reasons.append("the output differs from the blockwise reference")
    if not verdict.rel_err <= verdict.limit:
        reasons.append(f"relative error {verdict.rel_err:.2e} is above {verdict.limit:.0e}")
    return " and ".join(reasons)


def check_size(problem: Problem) -> float:
    """About how many seconds the check takes. Raises a usage failure if it is too many."""
    assert problem.seqlen_k is not None and problem.kv_heads is not None
    per_head = max(q * k for q, k in map(problem.lengths, range(problem.batch)))
    scores = problem.heads * sum(q * k for q, k in map(problem.lengths, range(problem.batch)))
    elements = (
        problem.batch
        * (problem.head_dim + problem.dim_v)
        * (problem.seqlen_q * problem.heads + problem.seqlen_k * problem.kv_heads)
    )
    seconds = scores / SCORES_PER_SECOND
    if scores > MOST_SCORES or per_head > MOST_SCORES_PER_HEAD or elements > MOST_ELEMENTS:
        raise BadInput(
            f"{problem.heads} heads x batch {problem.batch} x {problem.seqlen_q} x "
            f"{problem.seqlen_k} are {scores:,} scores, about {seconds:,.0f} s; a check computes "
            f"every one, so it takes at most {MOST_SCORES:,} in all, {MOST_SCORES_PER_HEAD:,} per "
            f"head and {MOST_ELEMENTS:,} elements of Q, K, V and O. Lower heads, batch or lengths"
        )
    check_pages(problem)
    return seconds


def check_pages(problem: Problem) -> None:
    """Raise a usage failure if random pages would fill the memory."""
    if problem.page_size is None:
        return
    assert problem.kv_heads is not None
    rows = (problem.batch * _pages_of_longest(problem) + SPARE_PAGES) * problem.page_size
    elements = rows * problem.kv_heads * (problem.head_dim + problem.dim_v)
    if elements > MOST_ELEMENTS:
        raise BadInput(
            f"page_size={problem.page_size}: random pages would hold {elements:,} elements of K "
            f"and V, and a check takes at most {MOST_ELEMENTS:,}; take smaller pages"
        )


def random_inputs(problem: Problem, seed: int) -> Inputs:
    """Standard normal inputs of a problem's shapes, rounded to its dtype."""
    assert problem.seqlen_k is not None and problem.kv_heads is not None
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> Floats:
        return round_to(rng.standard_normal(shape, dtype=np.float32), problem.dtype)

    rows, table = (problem.batch, problem.seqlen_k), None
    if problem.page_size is not None:
        table = random_pages(problem, rng)
        rows = (table.size + SPARE_PAGES, problem.page_size)
    q = normal(problem.batch, problem.seqlen_q, problem.heads, problem.head_dim)
    k = normal(*rows, problem.kv_heads, problem.head_dim)
    v = normal(*rows, problem.kv_heads, problem.dim_v)
    return Inputs(q, k, v, normal(problem.heads) if problem.sink else None, table)


def random_pages(problem: Problem, rng: np.random.Generator) -> PageTable:
    """A table (batch, pages of the longest sequence) of pages in any order, none of them shared."""
    columns = _pages_of_longest(problem)
    pages = rng.permutation(problem.batch * columns + SPARE_PAGES)[: problem.batch * columns]
    return pages.reshape(problem.batch, columns).astype(np.int32)


def _pages_of_longest(problem: Problem) -> int:
    """Columns of the page table."""
    assert problem.seqlen_k is not None and problem.page_size is not None
    return -(-problem.seqlen_k // problem.page_size)


def random_descales(problem: Problem, seed: int) -> Floats:
    """Factors of FP8's Q, K and V, ½, 1 or 2: float32 (3, batch, kv_heads)."""
    assert problem.kv_heads is not None
    shape = 3, problem.batch, problem.kv_heads
    powers = np.random.default_rng([seed, *shape]).integers(-1, 2, shape)
    return np.exp2(powers).astype(np.float32)


def compare_with_references(setup: options.Setup, seed: int) -> Verdict:
    """Run random arrays through the pipeline and through both references."""
    problem, design = setup.problem, setup.design
    inputs = random_inputs(problem, seed)
    if problem.dtype in FP8:
        inputs = replace(inputs, descales=random_descales(problem, seed))
    with refusals(), np.errstate(all="ignore"):  # a broken design computes on poison
        run = simulate(
            problem, design, setup.machine, arrays=(inputs.q, inputs.k, inputs.v),
            sink=inputs.sink, page_table=inputs.page_table,
            descales=None if inputs.descales is None else tuple(inputs.descales), seed=seed,
            on_hazard="record",
        )  # fmt: skip
        inputs = inputs.in_one_piece(problem)
        out, lse = blockwise(problem, design, inputs)
        exact, exact_lse = attention_float64(
            *inputs.true_values(problem), sink=inputs.sink, **_mask_options(problem)
        )
    outputs = run.outputs
    assert outputs is not None
    difference = outputs.out.astype(np.float64) - exact
    norm = float(np.linalg.norm(exact))
    off = float(np.linalg.norm(difference))
    return Verdict(
        run,
        max_abs_err=float(np.max(np.abs(difference), initial=0.0)),
        rel_err=off / norm if norm else (0.0 if off == 0 else float("inf")),
        lse_max_abs_err=lse_error(outputs.lse, exact_lse),
        equals_blockwise=np.array_equal(outputs.out, out) and np.array_equal(outputs.lse, lse),
        limit=LIMITS[problem.dtype],
    )  # fmt: skip


def lse_error(lse: Floats, exact: NDArray[np.float64]) -> float:
    """The largest error of a row's LSE; NaN if a row is finite in one of both only.

    A row that sees no key has −inf in both, which is no error.
    """
    with np.errstate(invalid="ignore"):
        off = np.where(lse == exact, 0.0, np.abs(lse - exact))
    return float(np.max(off, initial=0.0)) if np.isfinite(off).all() else math.nan


def blockwise(problem: Problem, design: AnyDesign, inputs: Inputs) -> tuple[Floats, Floats]:
    """The blockwise reference with the parameters of a design."""
    own: dict[str, Any] = {"emulation_freq": 0}  # Hopper's kernel has no polynomial
    if isinstance(design, Design):
        own = {
            "emulation_freq": design.exp2_period,
            "emulation_res": design.exp2_emulated,
            "emulation_start": design.exp2_first_fragment,
            "emulation_degree": design.exp2_degree,
            "split_pv": design.p_first_columns / design.tile_n,
            "max_offset": design.max_offset,
            "num_splits": design.num_splits,
        }
    if inputs.descales is not None:
        own |= dict(zip(("q_descale", "k_descale", "v_descale"), inputs.descales, strict=True))
    out, lse = attention_blockwise(
        inputs.q,
        inputs.k,
        inputs.v,
        sink=inputs.sink,
        dtype=problem.dtype,
        tile_m=design.tile_m,
        tile_n=design.tile_n,
        q_stage=design.q_stages,
        threshold=design.rescale_threshold,
        pack_gqa=design.pack_gqa,
        **own,
        **_mask_options(problem),
    )
    return out, lse


def _mask_options(problem: Problem) -> dict[str, Any]:
    return {
        "causal": problem.causal,
        "window": problem.window,
        "softmax_scale": problem.softmax_scale,
        "softcap": problem.softcap,
        "seqlens_q": problem.seqlens_q,
        "seqlens_k": problem.seqlens_k,
    }
