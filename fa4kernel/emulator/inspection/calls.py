"""What a barrier is called in the source, read off the calls that wait for it or arrive on it.

CUTLASS and CuTe DSL wrap two mbarriers for each slot of a ring into a pipeline: a producer waits
until a slot is empty and signals that it is full, a consumer waits for full and signals empty.
"""

from __future__ import annotations

import ast
import re

#: Keywords by which a call is given a barrier.
KEYWORDS = ("tma_bar_ptr", "mbar_ptr", "mbar", "barrier_id", "barrier", "bar_ptr")
#: Modules whose functions take a barrier as their first argument.
MODULES = ("arch", "tcgen05", "umma", "nvgpu", "cpasync", "nvvm")
#: Methods of a barrier, or of something that holds one: they say nothing more than its name does.
METHODS = re.compile(
    r"(mbarrier_)?(wait|try_wait|test_wait|arrive|arrive_and_wait|arrive_and_expect_tx|commit|expect|"
    r"expect_tx|init|initialise|initialize|signal|sync|at|get|get_barrier|ptr|data_ptr)"
    r"(_w_index)?(_phase)?(_unaligned)?"
)
NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def name_in_call(call: ast.Call, signals: bool) -> str | None:
    """The name of the barrier that a call is about, or None if it tells nothing.

    Args:
        call: the call.
        signals: whether it arrives (or makes something arrive), or waits.

    >>> def name(text, signals):
    ...     return name_in_call(ast.parse(text).body[0].value, signals)
    >>> name("pipeline_kv.producer_acquire(state)", False), name("self.ready.wait(0)", False)
    ('pipeline_kv.empty', 'ready')
    >>> name("cute.arch.mbarrier_arrive(bars.sums + stage)", True)
    'bars.sums'
    """
    for keyword in call.keywords:
        if keyword.arg in KEYWORDS:
            return name_in_expression(keyword.value, signals)
    if not isinstance(call.func, ast.Attribute):
        if isinstance(call.func, ast.Name) and METHODS.fullmatch(call.func.id) and call.args:
            return name_in_expression(call.args[0], signals)
        return None
    receiver, method = ast.unparse(call.func.value), call.func.attr
    if receiver.rpartition(".")[2] in MODULES:
        return name_in_expression(call.args[0], signals) if call.args else None
    side = side_of(method, signals)
    if receiver.endswith((".sync_object_full", ".sync_object_empty")):
        receiver, _, side = receiver.rpartition(".sync_object_")
    if side is None and not METHODS.fullmatch(method):
        side = method
    name = plain(receiver)
    if name is None:
        return None
    for word in ("_producer", "_consumer"):
        name = name.removesuffix(word)
    return name if side is None else f"{name}.{side}"


def side_of(method: str, signals: bool) -> str | None:
    """Whether a pipeline's method is about its full or its empty barriers.

    >>> side_of("producer_acquire", True), side_of("consumer_wait", False), side_of("wait", False)
    ('full', 'full', None)
    """
    if "producer" in method or "acquire" in method or method == "tail":
        return "full" if signals else "empty"
    if "consumer" in method or method.startswith("release") or method == "wait_and_advance":
        return "empty" if signals else "full"
    return None


def name_in_expression(expression: ast.expr, signals: bool) -> str | None:
    """The name of the barrier that an expression is the address of."""
    if isinstance(expression, ast.Call):
        return name_in_call(expression, signals)
    if isinstance(expression, ast.Subscript):
        return name_in_expression(expression.value, signals)
    if isinstance(expression, ast.BinOp):
        return name_in_expression(expression.left, signals)
    if isinstance(expression, ast.Name | ast.Attribute):
        return plain(ast.unparse(expression))
    return None


def plain(text: str) -> str | None:
    """A dotted name without ``self``; None for anything else."""
    if not NAME.fullmatch(text) or text == "self":
        return None
    return text.removeprefix("self.")
