"""Write `docs/benchmarks_h200.md` from the measured data, the first measurement and the notes.

    python -m benchmarks.hopper.report            # write the page
    python -m benchmarks.hopper.report --check    # fail if the page is not what would be written

Every figure on the page comes from a data file. The words about the figures are in `notes.json`;
a `{name}` there is replaced by the measured value of that name.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.hopper import results_file
from benchmarks.hopper.import_results import DATA, MEASURED

PRIOR = DATA / "h200_prior.json"
NOTES = Path(__file__).resolve().parent / "notes.json"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks_h200.md"
# A larger relative difference between the two measurements needs an explanation.
DIFFERENCE = 0.05

SECTIONS = {
    "barriers": (
        "Barriers",
        "mbarrier hand-offs, named barriers, remote arrivals, fences. Hand-offs are measured by "
        "ping-pong between warps of one SM; all cycles are of that SM's counter.",
    ),
    "rates": (
        "Arithmetic and shared memory",
        "Cycles per warp instruction on one SM sub-partition; `single_warp` rows have one warp per "
        "sub-partition instead of four. `mix_*` rows count a whole group, so 8 for one MUFU and "
        "four FFMA means that the FFMA are hidden.",
    ),
    "softmax_step": (
        "Softmax row step",
        "One thread holds a row of 128 fp32 scores: maximum, scale and subtract, exponential, sum, "
        "conversion to bf16, with a share of the exponentials by polynomial. Rows of two warps "
        "give elapsed cycles per step and warp, so both together take twice that.",
    ),
    "tensor": (
        "Tensor core",
        "wgmma m64n128k16, bf16 operands from shared memory: a stand-in for the completion "
        "latency of Blackwell's tensor core, not for its rate.",
    ),
    "beside": (
        "Beside the tensor cores",
        "One warpgroup runs wgmma m64n128k16 without pause, one or two others compute: cycles of a "
        "sub-partition for each of their warp instructions, and what is left of wgmma's rate. And "
        "warpgroups that start products at the same moment. Measured a day after the rest, on "
        "an H200 with the same driver.",
    ),
    "tma": (
        "TMA latency",
        "bf16 tensor with rows of 256 bytes, boxes of 64 columns, 128-byte swizzle. L2 latencies "
        "have two humps, for the near and the far half of the L2; the 10th percentile is the near "
        "one.",
    ),
    "tma_bandwidth": (
        "TMA bandwidth",
        "Bytes per cycle and SM against bytes in flight. With every SM active each SM is a sample, "
        "timed while it has work: past the knee a few SMs get more than their share and finish "
        "early, hence the high 90th percentiles.",
    ),
    "paged": (
        "Rows through a page table",
        "K and V of head dimension 128, bf16, in pages of so many keys: what a block of 128 keys "
        "takes the threads that copy it row by row, alone on the GPU, and what HBM gives to 128 "
        "CTAs, by the number of heads whose rows lie beside each other. Measured a day after the "
        "rest, on an H200 with the same driver.",
    ),
    "turnover": (
        "CTA turnover, registers, launches",
        "What surrounds a kernel's work.",
    ),
    "clock": (
        "Clock, HBM and L2",
        "The SM clock under different loads, and plain loads from L2 and HBM.",
    ),
}

# Architectural rate of a unit, per cycle and SM, from the measured cycles or bytes.
ARCHITECTURE = (
    ("MUFU.EX2", "mufu_ex2_cycles_per_warp", 16, "operations"),
    ("FFMA", "ffma_cycles_per_warp", 128, "operations"),
    ("FADD", "fadd_cycles_per_warp", 128, "operations"),
    ("FMNMX", "fmnmx_cycles_per_warp", 64, "operations"),
    ("F2FP, two values", "f2fp_cycles_per_warp", 64, "operations"),
    ("IADD3", "iadd3_cycles_per_warp", 64, "operations"),
    ("SHFL", "shfl_cycles_per_warp", 32, "operations"),
    ("shared memory load", "lds128_16_warps_bytes_per_cycle", 128, "bytes"),
    ("shared memory store", "sts128_16_warps_bytes_per_cycle", 128, "bytes"),
    ("wgmma bf16", "wgmma_n128_2_warpgroup_flop_per_cycle", 4096, "FLOP"),
)

# Bytes in flight of the bandwidth sweep, in KiB.
IN_FLIGHT_KIB = (16, 32, 48, 64, 96, 128, 192)

_SCALES = {
    "bytes_per_second": (1e12, "TB/s"),
    "flop_per_second": (1e12, "TFLOP/s"),
    "hz": (1e9, "GHz"),
    "us": (1, "µs"),
    "bytes_per_cycle": (1, "B/clk"),
    "flop_per_cycle": (1, "FLOP/clk"),
    "cycles_per_warp": (1, "clk/warp"),
    "cycles_per_element": (1, "clk/element"),
    "cycles": (1, "clk"),
}


def number(value: float, unit: str) -> str:
    """`value` to four figures in the unit that the page shows.

    >>> number(1.63498e9, "hz"), number(511.25, "cycles"), number(65.0, "cycles")
    ('1.635', '511.2', '65')
    """
    return f"{value / _SCALES[unit][0]:.4g}"


def shown(value: float, unit: str) -> str:
    """`value` with its unit.

    >>> shown(4.46e12, "bytes_per_second")
    '4.46 TB/s'
    """
    return f"{number(value, unit)} {_SCALES[unit][1]}"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    head = list(head)
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def difference(row: dict[str, Any], prior: dict[str, dict[str, Any]]) -> float | None:
    """How far `row` is from the first measurement, relative to it; None if that has no such row."""
    if row["name"] not in prior:
        return None
    return float(row["value"] / prior[row["name"]]["value"] - 1)


def explanation_of(name: str, notes: dict[str, Any]) -> int:
    """Index of the explanation of a difference in `name`.

    Raises:
        ResultFileError: there is none, and somebody has to write one.
    """
    for index, entry in enumerate(notes["differences"]):
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in entry["names"]):
            return index
    raise results_file.ResultFileError(
        f"{name} differs by more than {DIFFERENCE:.0%} from the first measurement and "
        f"{NOTES.name} does not say why: add it under 'differences'"
    )


def measured_table(
    rows: list[dict[str, Any]], prior: dict[str, dict[str, Any]]
) -> tuple[list[str], list[str]]:
    """The table of one section, and the methods that its last column numbers."""
    methods: list[str] = []
    lines = []
    for row in rows:
        if row["method"] not in methods:
            methods.append(row["method"])
        unit = row["unit"]
        first, apart = "", ""
        change = difference(row, prior)
        if change is not None:
            first, apart = number(prior[row["name"]]["value"], unit), f"{change:+.1%}"
            if abs(change) > DIFFERENCE:
                apart = f"**{apart}**"
        lines.append(
            (
                f"`{row['name']}`",
                f"{number(row['value'], unit)}",
                _SCALES[unit][1],
                f"{number(row['p10'], unit)} – {number(row['p90'], unit)}",
                f"{number(row['run_min'], unit)} – {number(row['run_max'], unit)}",
                first,
                apart,
                str(methods.index(row["method"]) + 1),
            )
        )
    head = ("name", "value", "unit", "p10 – p90", "between runs", "first", "difference", "how")
    return table(head, lines), methods


def architecture_table(values: dict[str, float]) -> list[str]:
    rows = []
    for what, name, rate, unit in ARCHITECTURE:
        measured = values[name]
        if name.endswith("_cycles_per_warp"):
            measured = 4 * 32 / measured  # four sub-partitions, 32 lanes
        rows.append((what, f"{rate} {unit}", f"{measured:.1f}", f"{measured / rate - 1:+.1%}"))
    return table(("unit", "per cycle and SM", "measured", "difference"), rows)


def derived(values: dict[str, float]) -> dict[str, str]:
    """Figures that the notes mention and that follow from measured ones."""
    period = 16384 / values["tma_l2_one_sm_16kib_in_flight_bytes_per_cycle"]
    latency = values["tma_l2_base_cycles"] + 16384 / values["tma_l2_bytes_per_cycle"]
    loop = values["mbarrier_half_round_trip_cycles"] - values["mbarrier_arrive_to_resume_cycles"]

    def knee(where: str) -> str:
        peak = values[f"tma_{where}_all_sms_peak_bytes_per_cycle"]
        for kib in IN_FLIGHT_KIB:
            if values[f"tma_{where}_all_sms_{kib}kib_in_flight_bytes_per_cycle"] >= 0.98 * peak:
                return f"{kib} KiB"
        raise results_file.ResultFileError(f"no bandwidth in flight reaches the peak of {where}")

    return {
        "l2_knee": knee("l2"),
        "hbm_knee": knee("hbm"),
        "ring_period": shown(period, "cycles"),
        "ring_overhead": shown(period - latency, "cycles"),
        "mbarrier_loop_overhead": shown(loop, "cycles"),
    }


def fill_in(text: str, filled: dict[str, str], where: str) -> str:
    """`text` with every `{name}` replaced by its measured value."""
    try:
        return text.format_map(filled)
    except KeyError as error:
        raise results_file.ResultFileError(
            f"{NOTES.name} mentions {error} in {where}, which was not measured"
        ) from None


def differences(
    data: dict[str, Any],
    prior: dict[str, dict[str, Any]],
    notes: dict[str, Any],
    filled: dict[str, str],
) -> list[str]:
    """Every difference above the limit, grouped by its explanation."""
    groups: dict[int, list[dict[str, Any]]] = {}
    for row in data["rows"]:
        change = difference(row, prior)
        if change is not None and abs(change) > DIFFERENCE:
            groups.setdefault(explanation_of(row["name"], notes), []).append(row)
    lines = []
    for index in sorted(groups):
        entry = notes["differences"][index]
        lines += [f"### {entry['title']}", ""]
        rows = []
        for row in groups[index]:
            before = prior[row["name"]]
            rows.append(
                (
                    f"`{row['name']}`",
                    shown(row["value"], row["unit"]),
                    before["as_stated"],
                    f"{row['value'] / before['value'] - 1:+.1%}",
                )
            )
        lines += table(("name", "measured", "first measurement, as stated", "difference"), rows)
        lines += ["", fill_in(entry["text"], filled, f"'{entry['title']}'"), ""]
    return lines


def page(data: dict[str, Any], first: dict[str, Any], notes: dict[str, Any]) -> str:
    """The whole page as Markdown."""
    prior = {row["name"]: row for row in first["rows"]}
    for row in first["rows"]:
        if row["unit"] != results_file.unit_of(row["name"]):
            raise results_file.ResultFileError(f"{PRIOR.name}: {row['name']} has a wrong unit")
    filled = {row["name"]: shown(row["value"], row["unit"]) for row in data["rows"]}
    filled |= derived(results_file.values(data))
    gpu = data.get("gpu_before", {})
    lines = [
        "# Microbenchmarks on an H200",
        "",
        "Latencies and rates that Hopper shares with Blackwell, measured by the programs in "
        "`benchmarks/hopper/`. The simulator's `Machine` uses them where nothing measured on a "
        "Blackwell GPU is published.",
        "",
        "<!-- Written by `python -m benchmarks.hopper.report`; do not edit. -->",
        "",
    ]
    lines += table(
        ("", ""),
        (
            ("device", f"{data['device']}, {gpu.get('memory.total', '')}"),
            ("driver, CUDA", f"{data['driver']}, nvcc {data['cuda']}"),
            ("date", data["date"]),
            ("runs", f"{data['runs']} of every program"),
            ("power limit, ECC", f"{gpu.get('power.limit')}, {gpu.get('ecc.mode.current')}"),
            (
                "SM clock",
                f"{filled['sm_clock_light_hz']} under light load, "
                f"{filled['sm_clock_sustained_hz']} under sustained tensor work",
            ),
            (
                "first measurement",
                f"{first['device']}, driver {first['driver']}, CUDA {first['cuda']}, "
                f"{first['date']}: {first['about']}",
            ),
        ),
    )
    lines += ["", "## How", ""]
    lines += [f"- {fill_in(text, filled, 'the method')}" for text in notes["method"]]
    lines += [
        "",
        "To measure again, on a machine with a Hopper GPU and nvcc:",
        "",
        "```",
        "python benchmarks/hopper/run.py --out results.json",
        "python -m benchmarks.hopper.import_results results.json",
        "python -m benchmarks.hopper.report",
        "```",
        "",
        "## Check against the architecture",
        "",
        "A folded loop or a starved unit would show here.",
        "",
        *architecture_table(results_file.values(data)),
        "",
        "## What the figures say",
        "",
    ]
    lines += [f"- {fill_in(text, filled, 'the findings')}" for text in notes["findings"]]
    lines += [
        "",
        "## All figures",
        "",
        "`value` is the median over the runs, `p10 – p90` the spread within a run, `between runs` "
        "the range of the runs' medians. `first` is the first measurement's figure and "
        f"`difference` the distance from it, in bold above {DIFFERENCE:.0%}.",
        "",
    ]
    for program, (title, text) in SECTIONS.items():
        rows = [row for row in data["rows"] if row["program"] == program]
        body, methods = measured_table(rows, prior)
        lines += [f"### {title}", "", f"`benchmarks/hopper/{program}.cu`. {text}", "", *body, ""]
        lines += [f"{index}. {method}" for index, method in enumerate(methods, 1)]
        lines += [""]
    lines += ["## Differences from the first measurement", ""]
    lines += [f"All that are larger than {DIFFERENCE:.0%}, with the reason as far as known.", ""]
    lines += differences(data, prior, notes, filled)
    lines += ["## What Hopper cannot tell", ""]
    lines += [f"- {fill_in(text, filled, 'the limits')}" for text in notes["limits"]]
    return "\n".join(lines) + "\n"


def current_page() -> str:
    """The page that the data and notes in the repository make.

    Raises:
        ResultFileError: a data file is broken, or a difference has no explanation.
    """
    data = results_file.read(MEASURED)
    first = json.loads(PRIOR.read_text(encoding="utf-8"))
    notes = json.loads(NOTES.read_text(encoding="utf-8"))
    return page(data, first, notes)


def main(arguments: list[str]) -> int:
    """Run the command; returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    options = parser.parse_args(arguments)
    try:
        text = current_page()
    except (OSError, results_file.ResultFileError) as error:
        print(f"report: {error}", file=sys.stderr)
        return 1
    if options.check:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
            print(f"report: {PAGE} is stale; run it without --check", file=sys.stderr)
            return 1
        return 0
    temporary = PAGE.with_name(PAGE.name + ".partial")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(PAGE)
    print(f"written to {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
