"""Run every opcode test on the GPU and write what it gives.

    python -m tests.emulator.device.run --out FOLDER [--full]

writes FOLDER/h200.json, which belongs beside this file, and FOLDER/report.json, where the results
and the emulator's differ. Each part runs in a process of its own, which starts again after a kernel
that fails or doesn't end. ``--full`` has all 2**32 inputs of ex2 and more rows for each line.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fa4kernel.device import Gpu, GpuError, Refused
from fa4kernel.device import run as run_kernel
from fa4kernel.emulator import Launch, emulate
from tests.emulator.device import bits, boxes, lines, opcodes, products, sweeps
from tests.emulator.isa.case import Case, columns, evaluate
from tests.emulator.machine.tables import CASES as KERNELS

#: Rows of which a checksum is kept for each line, and lines per module.
ROWS, FEW, TOGETHER = 4096, 3, 64
CTAS = 16
#: One in how many results of the exhaustive sweeps is kept.
EVERY = 1021
Item = tuple[str, str, Any]  # group, name, result


def _wide(raw: np.ndarray) -> np.ndarray:
    """Bits as uint64."""
    return raw.astype(np.uint64)


def _rows(results: list[np.ndarray], count: int) -> list[list[str]]:
    return [[f"{int(r[i]):x}" for r in results] for i in range(count)]


def _line(case: Case, got: list[np.ndarray]) -> dict[str, Any]:
    """What is kept of a line's results on its random rows."""
    kinds = [kind for _, kind in case.results]
    return {
        "crc": [bits.digest(bits.canonical(g[:ROWS], k)) for g, k in zip(got, kinds, strict=True)],
        "first": _rows([g[:FEW] for g in got], FEW),
    }


def _compared(case: Case, sources: list[np.ndarray], got: list[np.ndarray]) -> dict[str, Any]:
    """Where a line's results and the emulator's differ."""
    model = evaluate(case, sources)
    wrong = np.zeros(len(sources[0]), bool)
    payload = np.zeros(len(sources[0]), bool)
    for (_, kind), g, m in zip(case.results, got, model, strict=True):
        m = _wide(m)
        wrong |= bits.canonical(g, kind) != bits.canonical(m, kind)
        payload |= g != m
    at = np.flatnonzero(wrong)
    at = at[:: max(1, len(at) // 16)][:16]
    odd = np.flatnonzero(payload & ~wrong)[:4]
    show = [
        [[f"{int(v[i]):x}" for v in group] for group in (sources, got, model)] for i in (*at, *odd)
    ]
    return {"wrong": int(wrong.sum()), "payload": int((payload & ~wrong).sum()), "first": show}


def run_lines(gpu: Gpu, full: bool, skip: set[str]) -> Iterator[Item]:
    """All lines: the tables' own rows, then random ones."""
    table, extra = list(lines.TABLE), list(lines.EXTRA)
    everything = [*table, *extra]
    for first in range(0, len(table), TOGETHER):
        part = table[first : first + TOGETHER]
        found = opcodes.on_gpu(gpu, part, [columns(case) for case in part])
        for case, got in zip(part, found, strict=True):
            name = lines.key(case)
            yield "cases", name, got if isinstance(got, str) else _rows(got, len(case.rows))
    count = 1 << 16 if full else ROWS
    for first in range(0, len(everything), TOGETHER):
        part = everything[first : first + TOGETHER]
        sources = [opcodes.inputs(case, count) for case in part]
        found = opcodes.on_gpu(gpu, part, sources)
        for case, given, got in zip(part, sources, found, strict=True):
            name = lines.key(case)
            if isinstance(got, str):
                yield "lines", name, got
                continue
            yield "lines", name, _line(case, got)
            compared = _compared(case, given, got)
            if compared["wrong"] or compared["payload"]:
                yield "report", name, compared


def run_kernels(gpu: Gpu, full: bool, skip: set[str]) -> Iterator[Item]:
    """The machine's cases."""
    for case in KERNELS:
        if not lines.on_hopper(case.needs) or case.name in skip:
            continue
        yield "now", case.name, ""
        wanted = case.wanted
        out = np.full(wanted.nbytes, 0xAB, np.uint8)
        launch = Launch(
            (case.ctas, 1, 1), (case.threads, 1, 1), (case.cluster, 1, 1),
            arguments=[np.array(case.source), out],
        )  # fmt: skip
        try:
            run_kernel(gpu, case.ptx, launch)
        except Refused as refused:
            yield "kernels", case.name, {"refused": str(refused)}
            continue
        found = {"crc": bits.digest(out)}
        if out.nbytes <= 2048:
            found["out"] = bits.packed(out)
        yield "kernels", case.name, found
        if out.tobytes() != wanted.tobytes():
            yield "report", case.name, {"got": bits.packed(out)}


def run_boxes(gpu: Gpu, full: bool, skip: set[str]) -> Iterator[Item]:
    """TMA copies."""
    for box in (*boxes.BOXES, *boxes.TRAPS):
        if box.name in skip:
            continue
        yield "now", box.name, ""
        launch, out = box.launch()
        try:
            run_kernel(gpu, box.ptx(), launch)
        except (Refused, GpuError) as error:
            yield "boxes", box.name, {"refused": str(error)}
            if "kernel" in str(error):
                raise
            continue
        raw = out.view(np.uint8)
        yield "boxes", box.name, {"crc": bits.digest(raw), "out": bits.packed(raw)}
        if box in boxes.TRAPS:
            continue
        launch, own = box.launch()
        emulate(box.ptx(), launch, checks="off")
        if own.tobytes() != out.tobytes():
            at = np.flatnonzero(own.view(np.uint8) != raw)
            yield "report", box.name, {"bytes": len(at), "first": at[:8].tolist()}


def run_products(gpu: Gpu, full: bool, skip: set[str]) -> Iterator[Item]:
    """wgmma: rounding and descriptors."""
    from fa4kernel.emulator.tensor import formats
    from fa4kernel.emulator.tensor.descriptors import SmemDescriptor
    from fa4kernel.emulator.tensor.product import product

    for each in products.ROUNDINGS:
        if each.name in skip:
            continue
        yield "now", each.name, ""
        ctas = CTAS
        out = np.zeros(ctas * 128 * each.registers, np.uint32)
        run_kernel(
            gpu, each.ptx(), Launch((ctas, 1, 1), (128, 1, 1), arguments=[each.source(ctas), out])
        )
        got = each.matrices(out, ctas)
        yield "rounding", each.name, {
            "crc": bits.digest(got), "first": [f"{int(v):x}" for v in got[0, :4].reshape(-1)],
        }  # fmt: skip
        a, b, c = each.operands(ctas)
        want = product(a, b, each.kinds, formats.decode(c, each.kinds[2]), architecture="sm_90a")
        want = formats.encode(want, "f16") if each.kinds[2] == "f16" else want.view(np.uint32)
        wrong = got != want
        if wrong.any():
            yield "report", each.name, {
                "wrong": int(wrong.sum()), "of": wrong.size, "out": bits.packed(got),
            }  # fmt: skip
    for operand in "AB":
        for major in ("K", "MN"):
            some = [p for p in products.POINTINGS if (p.operand, p.major) == (operand, major)]
            if some[0].name in skip:
                continue
            yield "now", some[0].name, ""
            count = 8 if operand == "A" else 32
            out = np.zeros(len(some) * 128 * count, np.uint32)
            values = np.array([p.value() for p in some], np.uint64)
            launch = Launch(
                (len(some), 1, 1), (128, 1, 1),
                arguments=[products.pointing_image(), out, values],
            )  # fmt: skip
            run_kernel(gpu, products.pointing_ptx(operand, major), launch)
            places = products.pointed(operand, out, len(some))
            read = places.astype(np.int16)
            yield "descriptors", f"{operand} {major}", [bits.digest(found) for found in read]
            for p, found in zip(some, read, strict=True):
                own = SmemDescriptor.decode_wgmma(p.value()).offsets(64, 16, 2, major)
                if (own != found).any():
                    yield "report", p.name, {"out": bits.packed(found)}


def run_sweeps(gpu: Gpu, full: bool, skip: set[str]) -> Iterator[Item]:
    """Special functions."""
    for i, sweep in enumerate(sweeps.SWEEPS):
        if sweep.text in skip:
            continue
        yield "now", sweep.text, ""
        step = (1 if i == 0 else 255) if full else 4095
        yield "sweeps", sweep.text, sweeps.swept(gpu, sweep, step)
    every = [np.arange(1 << 16, dtype=np.uint64)]
    found = opcodes.on_gpu(gpu, sweeps.HALVES, [every] * len(sweeps.HALVES))
    for case, got in zip(sweeps.HALVES, found, strict=True):
        assert not isinstance(got, str), got
        kind = case.results[0][1]
        model, raw = evaluate(case, every)[0].astype(np.int64), got[0].astype(np.int64)
        differs = bits.canonical(got[0], kind) != bits.canonical(_wide(model), kind)
        apart, counts = np.unique(np.clip((raw - model)[differs], -99, 99), return_counts=True)
        at = np.flatnonzero(differs)
        yield "halves", case.text, {
            "crc": bits.digest(bits.canonical(got[0], kind)), "differences": int(differs.sum()),
            "ulps": {str(int(a)): int(n) for a, n in zip(apart, counts, strict=True)},
            "first": [[f"{int(i):x}", f"{int(raw[i]):x}", f"{int(model[i]):x}"] for i in at[:12]],
            "sample": [f"{int(v):x}" for v in raw[::EVERY]],
        }  # fmt: skip
        yield "report", case.text, {"out": bits.packed(got[0].astype(np.uint16))}


PARTS: dict[str, Callable[[Gpu, bool, set[str]], Iterator[Item]]] = {
    "lines": run_lines, "kernels": run_kernels, "boxes": run_boxes, "products": run_products,
    "sweeps": run_sweeps,
}  # fmt: skip


def logged(log: Path) -> list[Item]:
    """What a log has, which may not exist."""
    if not log.exists():
        return []
    return [tuple(json.loads(line)) for line in log.read_text().splitlines()]


def work(part: str, log: Path, full: bool) -> None:
    """Do one part in this process; every result is a line of the log, at once."""
    skip = {name for _, name, _ in logged(log)}
    gpu = Gpu()
    with log.open("a", encoding="utf-8") as file:
        print(json.dumps(["about", "", gpu.about()]), file=file, flush=True)
        for item in PARTS[part](gpu, full, skip):
            print(json.dumps(item), file=file, flush=True)


def conduct(out: Path, full: bool, parts: list[str], limit: float) -> dict[str, Any]:
    """Do all parts, each in processes of its own, and gather what they log."""
    results: dict[str, Any] = {"about": {}, "failed": {}}
    for part in parts:
        started, log = time.monotonic(), out / f"{part}.log"
        known = {box.name for box in boxes.TRAPS}
        log.unlink(missing_ok=True)
        while time.monotonic() - started < limit:
            command = [sys.executable, "-m", "tests.emulator.device.run", "--out", str(out),
                       "--part", part, *(["--full"] if full else [])]  # fmt: skip
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
                failure = done.stderr.strip()[-1500:] if done.returncode else ""
            except subprocess.TimeoutExpired:
                failure = f"not done in {limit:g} s"
            if not failure:
                break
            items = logged(log)
            last = items[-1][1] if items else part
            if last not in known:
                results["failed"][f"{part}: {last}"] = failure
            if not items or part == "lines" or "not done" in failure:
                break
        for group, name, result in logged(log):
            if group == "about":
                results["about"] = result
            elif group != "now":
                results.setdefault(group, {})[name] = result
        print(f"{part}: {time.monotonic() - started:.1f} s", flush=True)
    return results


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--part", choices=sorted(PARTS))
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--limit", type=float, default=150.0)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.part:
        work(options.part, options.out / f"{options.part}.log", options.full)
        return
    results = conduct(options.out, options.full, options.only.split(","), options.limit)
    report = results.pop("report", {})
    for log in options.out.glob("*.log"):
        log.unlink()
    text = json.dumps(results, separators=(",", ":"), sort_keys=True)
    (options.out / "h200.json").write_text(text, encoding="utf-8")
    (options.out / "report.json").write_text(json.dumps(report, indent=0), encoding="utf-8")
    for group, found in results.items():
        print(f"{group}: {len(found)}")
    print(f"failed: {json.dumps(results['failed'], indent=1)[:3000]}")
    print(f"{len(report)} reports; h200.json has {len(text)} bytes")
    for name in list(report)[:60]:
        print(" ", name, json.dumps(report[name])[:150])


if __name__ == "__main__":
    main()
