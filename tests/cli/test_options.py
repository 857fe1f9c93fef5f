"""Problem options, settings and files of lengths; bad ones are refused, quoted, with code 2."""

import json
import os

import pytest

ONE = ("--batch", "1", "--heads", "1")


@pytest.mark.parametrize(
    "options, quoted",
    [
        (("--seqlen-q", -3), "seqlen_q=-3"),
        (("--seqlen-k", -1), "seqlen_k=-1"),
        (("--batch", 0), "batch=0"),
        (("--heads", 6, "--kv-heads", 4), "heads=6"),
        (("--head-dim", 100), "100"),
        (("--head-dim", 256), "256"),
        (("--head-dim", 64, "--head-dim-v", 7), "7"),
        (("--dtype", "fp64"), "'fp64'"),
        (("--num-splits", -1), "num_splits=-1"),
        (("--num-splits", 257), "num_splits=257"),
        (("--num-splits", 2, "--set", "num_splits=3"), "num_splits is given twice"),
        (("--num-splits", 2, "--set", "cta_group=2"), "num_splits=2 with cta_group=2"),
        (("--window", "5"), "'5'"),
        (("--window", "a,b"), "'a'"),
        (("--window", "-9,2"), "(-9, 2)"),
        (("--causal", "--window", "4,4"), "(4, 4)"),
        (("--softcap", "nan"), "nan"),
        (("--softcap", "-1"), "-1"),
        (("--machine", "b100"), "'b100'"),
        (("--batch", "many"), "'many'"),
        (("--seed", -1), "-1"),
        (("--no-such-option",), "--no-such-option"),
        (("--set", "kv_stages"), "'kv_stages'"),
        (("--set", "kv_stages="), "'kv_stages='"),
        (("--set", "=3"), "'=3'"),
        (("--set", "kv_stages=99"), "99"),
        (("--set", "kv_stages=1"), "kv_stages=1"),
        (("--set", "kv_stages=many"), "'many'"),
        (("--set", "kv_stages=2.5"), "2.5"),
        (("--set", "kv_stages=True"), "True"),
        (("--set", "kv_stages=1e400"), "inf"),
        (("--set", "kv_stages=" + "9" * 400), "9999"),
        (("--set", "pack_gqa=maybe"), "'maybe'"),
        (("--set", "rescale_threshold=high"), "'high'"),
        (("--set", "scheduler=7"), "7"),
        (("--set", "scheduler=fastest"), "'fastest'"),
        (("--set", "tile_n=[64]"), "[64]"),
        (("--set", "faults=1"), "--break"),
        (("--set", "registers_softmax=100"), "registers_softmax=100"),
        (("--set", "machine.clock_hz=fast"), "'fast'"),
        (("--set", "machine.clock_hz=0"), "clock_hz=0"),
        (("--set", "machine.sms=1.5"), "1.5"),
        (("--set", "machine.nothing=1"), "'nothing'"),
        (("--set", "clock_hz=1e9"), "machine.clock_hz"),
        (("--set", "softmax_scale=-1"), "-1"),
        (("--set", "seqlens_q=5"), "5"),
        (("--set", "window=7"), "7"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(map(str, value)),
)
def test_bad_input_is_refused_and_quoted(fa4sim, options, quoted):
    outcome = fa4sim("run", *options, "--json")
    assert outcome.code == 2
    assert quoted in outcome.err
    assert "Error:" in outcome.err and "Traceback" not in outcome.err
    facts = outcome.json
    assert set(facts) == {"schema", "error", "exit_code"}
    assert facts["exit_code"] == 2 and quoted in facts["error"]


@pytest.mark.parametrize(
    "value",
    ["__import__('os')", "1+1", "[].append(1)", "lambda: 1", "(" * 500, "f'{1}'", "3 if 1 else 2",
     "9" * 5000, "\\x00", "a b"],
)  # fmt: skip
def test_values_are_read_and_never_evaluated(fa4sim, value):
    outcome = fa4sim("run", *ONE, "--set", f"kv_stages={value}")
    assert outcome.code == 2
    assert "never evaluated" in outcome.err


def test_an_unknown_name_lists_what_exists_and_guesses(fa4sim):
    outcome = fa4sim("run", "--set", "kv_stage=3")
    assert outcome.code == 2
    for words in ("'kv_stage'", "did you mean 'kv_stages'", "rescale_threshold", "softmax_scale",
                  "machine.NAME"):  # fmt: skip
        assert words in outcome.err


def test_a_design_that_does_not_fit_says_what_would(fa4sim):
    outcome = fa4sim("run", *ONE, "--set", "kv_stages=30")
    assert outcome.code == 2
    assert "shared memory" in outcome.err and "kv_stages up to" in outcome.err


@pytest.mark.parametrize(
    "options, said",
    [
        (("--set", "kv_stages=2", "--set", "kv_stages=3"), "set twice"),
        (("--seqlen-q", 256, "--set", "seqlen_q=512"), "given twice"),
    ],
)
def test_the_same_thing_twice_is_refused(fa4sim, options, said):
    outcome = fa4sim("run", *ONE, *options)
    assert outcome.code == 2 and said in outcome.err


@pytest.mark.parametrize(
    "text, value",
    [
        ("pack_gqa=false", False),
        ("p_store_early=True", True),
        ("rescale_threshold=4", 4.0),
        ("rescale_threshold=0.5", 0.5),
        ("scheduler=lpt", "lpt"),
        ("scheduler='lpt'", "lpt"),
        ("kv_stages=3.0", 3),
        ("kv_stages = 3", 3),
    ],
)
def test_literals_and_plain_words_are_understood(fa4sim, text, value):
    name = text.partition("=")[0].strip()
    facts = fa4sim("run", *ONE, "--seqlen-q", 256, "--set", text, "--json").json
    assert facts["design"][name] == value
    assert type(facts["design"][name]) is type(value)


@pytest.mark.parametrize(
    "window, kept",
    [("128,0", [128, 0]), ("128,", [128, None]), (",64", [None, 64]), ("None,64", [None, 64])],
)
def test_an_empty_side_of_a_window_is_unbounded(fa4sim, window, kept):
    facts = fa4sim("run", *ONE, "--seqlen-q", 256, "--window", window, "--json").json
    assert facts["problem"]["window"] == kept


# -- files of lengths --------------------------------------------------------------------------

Q, K = [300, 0, 17], [300, 5, 0]


@pytest.mark.parametrize(
    "name, content",
    [
        ("lengths.json", json.dumps({"q": Q, "k": K}).encode()),
        ("lengths.csv", b"q,k\n300,300\n0,5\n17,0\n"),
        ("windows.csv", b"\xef\xbb\xbfq,k\r\n300,300\r\n0,5\r\n17,0\r\n"),
        ("bom.json", b"\xef\xbb\xbf" + json.dumps({"k": K, "q": Q}).encode()),
        ("with space, comma & ünïcode 长.csv", b"q, k\n300, 300\n0, 5\n17, 0\n"),
        ("-dash", b"k,q\n300,300\n5,0\n0,17\n"),
        ("no_newline_at_end.csv", b"q,k\n300,300\n0,5\n17,0"),
    ],
)
def test_lengths_come_from_json_or_csv(fa4sim, tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    outcome = fa4sim("run", "--heads", 2, "--seqlens", path, "--json")
    assert outcome.code == 0, outcome.err
    problem = outcome.json["problem"]
    assert problem["seqlens_q"] == Q and problem["seqlens_k"] == K
    assert problem["batch"] == 3


@pytest.mark.parametrize(
    "content",
    [b"", b"q,k\n", b"q;k\n1;2\n", b"q,k\n1,2.5\n", b"q,k\n1\n", b"q,k\n-1,2\n", b"{}", b"[1, 2]",
     b'{"q": [1], "k": 2}', b'{"q": [1], "k": [2, 3]}', b'{"q": [true], "k": [1]}',
     b'{"q": "12", "k": "34"', b"\xff\xfe\x00", b'{"q": [1], "k": ["x"]}'],
)  # fmt: skip
def test_a_file_without_lengths_is_refused(fa4sim, tmp_path, content):
    path = tmp_path / "lengths"
    path.write_bytes(content)
    outcome = fa4sim("run", "--heads", 2, "--seqlens", path)
    assert outcome.code == 2
    assert "Error:" in outcome.err and "Traceback" not in outcome.err


@pytest.mark.parametrize("name", ["missing.csv", "."])
def test_a_file_that_cannot_be_read_is_named(fa4sim, tmp_path, name):
    path = tmp_path / name
    outcome = fa4sim("run", "--seqlens", path)
    assert outcome.code == 2 and str(path) in outcome.err


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="needs a file root cannot read")
def test_a_forbidden_file_is_named(fa4sim, tmp_path):
    path = tmp_path / "secret.csv"
    path.write_text("q,k\n1,1\n", encoding="utf-8")
    path.chmod(0)
    outcome = fa4sim("run", "--seqlens", path)
    assert outcome.code == 2 and str(path) in outcome.err


@pytest.mark.parametrize(
    "options, quoted",
    [
        (("--batch", 5), "--batch 5"),
        (("--batch", 1), "--batch 1"),
        (("--seqlen-q", 64), "--seqlen-q 64"),
        (("--seqlen-k", 64), "--seqlen-k 64"),
    ],
)
def test_options_that_contradict_the_file_are_refused(fa4sim, tmp_path, options, quoted):
    path = tmp_path / "lengths.csv"
    path.write_text("q,k\n64,64\n32,32\n", encoding="utf-8")
    outcome = fa4sim("run", "--seqlens", path, *options)
    assert outcome.code == 2 and quoted in outcome.err


def test_lengths_can_be_checked_with_arrays(fa4sim, tmp_path):
    path = tmp_path / "lengths.csv"
    path.write_text("q,k\n130,200\n0,5\n17,0\n", encoding="utf-8")
    outcome = fa4sim("check", "--heads", 2, "--seqlens", path, "--causal", "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.json["ok"]


def test_lengths_are_given_once(fa4sim, tmp_path):
    path = tmp_path / "lengths.csv"
    path.write_text("q,k\n300,300\n17,0\n")
    for more, words in (
        (("--set", "seqlen_q=5"), "--set seqlen_q=5 and --seqlens contradict"),
        (("--seqlens", path), "--seqlens is given twice"),
    ):
        outcome = fa4sim("run", "--seqlens", path, *more)
        assert outcome.code == 2 and words in outcome.err


@pytest.mark.parametrize(
    "options",
    [("--window", "9999999999999999999999,0"), ("--set", "machine.hbm_bytes_per_second=1e-300"),
     ("--set", "machine.clock_hz=1e300"), ("--set", "machine.mufu_cycles_per_warp=1e300"),
     ("--set", "machine.tma_bytes_per_cycle=1e-300")],
)  # fmt: skip
def test_numbers_beyond_any_gpu_are_refused(fa4sim, options):
    outcome = fa4sim("run", *ONE, *options)
    assert outcome.code == 2 and "must be" in outcome.err
