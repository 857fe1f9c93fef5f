"""The poster says what the design's own tables say, on one page."""

import re
from dataclasses import replace

import pytest
from click.testing import CliRunner
from matplotlib.backends.backend_agg import FigureCanvasAgg

from fa4sim import B200, B300, Design, Problem
from fa4sim.cli.main import main
from fa4sim.pipelines.fa4.barriers import barrier_table
from fa4sim.poster import poster
from fa4sim.poster.facts import barriers, idle_warps, roles
from fa4sim.views import alt_text, save

PROBLEMS = [
    Problem(heads=16, seqlen_q=4096),
    Problem(heads=16, seqlen_q=4096, causal=True),
    Problem(heads=16, kv_heads=2, seqlen_q=1, seqlen_k=4096, head_dim=64),
    Problem(heads=6, kv_heads=2, seqlen_q=512, head_dim=64),
    Problem(heads=2, seqlen_q=4096, head_dim=192, head_dim_v=128),
    Problem(heads=16, seqlen_q=4096, dtype="e4m3"),
]


def every():
    for machine in (B200, B300):
        for problem in PROBLEMS:
            yield problem, Design.for_problem(problem, machine), machine
    problem = PROBLEMS[1]
    design = Design.for_problem(problem, B200)
    yield problem, replace(design, scheduler="dynamic"), B200
    yield problem, replace(design, p_first_columns=128), B200


DESIGNS = list(every())


@pytest.mark.parametrize("problem, design, machine", DESIGNS)
def test_no_barrier_is_left_out_and_arrivals_add_up(problem, design, machine):
    told = {row[0]: row for row in barriers(design)}
    for name, spec in barrier_table(design).items():
        if name.startswith("SoftmaxStatsW"):
            continue
        assert (name in told) == spec.used
        if spec.used:
            _, stages, arrivals, *_ = told[name]
            counts = re.findall(r"(?:(\d+) × )?(\d+)", arrivals)
            assert int(stages) == spec.stages
            assert sum(int(times or 1) * int(count) for times, count in counts) == spec.count


@pytest.mark.parametrize("problem, design, machine", DESIGNS)
def test_each_warp_has_one_role_at_most_and_registers_fit(problem, design, machine):
    taken = []
    for row in roles(design):
        first, *last = map(int, row.warps.split(" to "))
        taken += range(first, (last or [first])[0] + 1)
    assert len(taken) == len(set(taken)) and max(taken) < 16
    assert sorted([*taken, *idle_warps(roles(design))]) == list(range(16))
    assert {row.role for row in roles(design)} >= {"softmax0", "correction", "mma", "load"}
    assert all(24 <= row.registers <= 256 for row in roles(design))


@pytest.mark.parametrize("problem, design, machine", DESIGNS[::2])
def test_nothing_is_written_over_an_edge_or_over_each_other(problem, design, machine):
    page = poster(problem, design, machine)
    (axes,) = page.axes
    renderer = FigureCanvasAgg(page).get_renderer()
    paper = page.bbox
    boxes = [text.get_window_extent(renderer) for text in axes.texts]
    assert all(paper.x0 <= box.x0 and box.x1 <= paper.x1 for box in boxes)
    assert all(paper.y0 <= box.y0 and box.y1 <= paper.y1 for box in boxes)
    for i, one in enumerate(boxes):
        for j, other in enumerate(boxes[:i]):
            words = axes.texts[i].get_text(), axes.texts[j].get_text()
            assert not one.shrunk(0.95, 0.7).overlaps(other.shrunk(0.95, 0.7)), words


@pytest.mark.parametrize("problem, design, machine", [DESIGNS[0], *DESIGNS[-2:]])
def test_it_reads_on_half_the_paper(problem, design, machine):
    (axes,) = poster(problem, design, machine).axes
    smallest = min(text.get_fontsize() for text in axes.texts)
    assert smallest / 2**0.5 > 6.9  # points on A4
    assert {text.get_color() for text in axes.texts} <= {"#222222", "#555555", "black", "white"}


def test_alt_text_tells_the_page():
    problem = PROBLEMS[1]
    words = alt_text(poster(problem, Design.for_problem(problem, B200), B200))
    assert "P_full_O_rescaled: softmax 128 + correction 128 arrive, mma waits" in words
    assert "O1 from column 384, 128 wide" in words


def test_the_command_writes_one_page_the_same_each_time(tmp_path):
    for name in ("a.pdf", "b.pdf"):
        result = CliRunner().invoke(main, ["poster", "-o", str(tmp_path / name)])
        assert result.exit_code == 0, result.output
    pages = [(tmp_path / name).read_bytes() for name in ("a.pdf", "b.pdf")]
    assert pages[0] == pages[1]
    assert len(re.findall(rb"/Type /Page\b", pages[0])) == 1
    box = re.search(rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]", pages[0])
    assert (round(float(box[1]) / 72, 1), round(float(box[2]) / 72, 1)) == (16.5, 11.7)


@pytest.mark.parametrize(
    "words, complaint",
    [
        (["-o", "poster.txt"], "must end in .pdf, .svg or .png"),
        (["--machine", "h200", "-o", "x.pdf"], "'H200' runs a Hopper design"),
    ],
)
def test_what_it_refuses(tmp_path, monkeypatch, words, complaint):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["poster", *words])
    assert result.exit_code == 2
    assert complaint in result.output
    assert not list(tmp_path.iterdir())


def test_a_design_that_does_not_fit_is_refused():
    problem = PROBLEMS[0]
    design = Design.for_problem(problem, B200, cta_group=1)
    with pytest.raises(ValueError, match="kv_stages"):
        poster(problem, replace(design, kv_stages=9), B200)


def test_a_picture_is_saved_as_pdf_too(tmp_path):
    problem = PROBLEMS[0]
    page = poster(problem, Design.for_problem(problem, B200), B200)
    assert save(page, tmp_path / "p.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(ValueError, match=r"\.png, \.svg or \.pdf"):
        save(page, tmp_path / "p.gif")
