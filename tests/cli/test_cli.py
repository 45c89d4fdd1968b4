"""The command line as a user meets it: output, exit codes, no traceback."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import networkx as nx
import pytest

import ladderspec as ls
from ladderspec.cli import COMMANDS, main
from ladderspec.shipped import shipped
from tests.training import EXPERIMENT, SPEC, experiment

RLADDER = "specs/ommnist/rladder.yaml"
TINY = "specs/ommnist/rladder_tiny.yaml"


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    try:
        code = main(words)
    except SystemExit as stop:
        code = int(stop.code or 0)
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return code, out, err


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_has_help_with_an_example_in_80_columns(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run(capsys, command, "--help")
    assert code == 0
    assert f"ladderspec {command}" in out.split("example:")[1]
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("command", list(COMMANDS))
def test_examples_of_help_need_no_clone(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = run(capsys, command, "--help")
    assert not re.search(r"\b(specs|docs)/", out)
    examples = out.split("example:")[1]
    assert all(name in shipped() for name in re.findall(r"\bladderspec:([\w/]+)", examples))


def test_no_words_print_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys)
    assert code == 0
    assert all(name in out for name in COMMANDS)


def test_unknown_command_is_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "vlidate")[0] == 2


@pytest.mark.parametrize(
    "words",
    [
        "evaluate run --threads 0",
        "evaluate run --statistics -1",
        "generate run --threads -3",
        "generate run --seed -1",
        "train file --threads 0",
        "train file --workers -1",
        "train file --seed -1",
        "ablate file --threads -3",
        "ablate file --seed -1",
        "ablate file --seed 1.5",
        "ablate file --seed 99999999999999999999",
        "evaluate run --threads 1000000",
    ],
)
def test_numbers_that_cannot_be(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *words.split())
    option, value = words.split()[2], words.split()[-1]
    least = 1 if option == "--threads" else 0
    assert (code, out) == (2, "")
    most = {"--seed": ", at most 2,147,483,647"}.get(option, "") if "file" in words else ""
    most = ", at most 1,024" if option == "--threads" and "run" in words else most
    said = f"{option}: expected a whole number, at least {least}{most}, not '{value}'"
    assert err == f"ladderspec {words.split()[0]}: {said}\n"


def test_too_many_and_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty shell variable is not taken for `all`; threads are bounded before they start."""
    for option in ("--row", "--column", "--seed"):
        code, _, err = run(capsys, "train", "file", option, "")
        assert code == 2
        assert err.endswith(f"{option}: expected one or more names, like `a,b`, not ''\n")
    code, _, err = run(capsys, "train", "file", "--seeds", "1000000000")
    assert err.endswith("a whole number, at least 1, at most 1,000, not '1000000000'\n")
    place = str(experiment(tmp_path))
    for option, most in (("--threads", "1024"), ("--workers", "256")):
        code, _, err = run(capsys, "train", place, option, "100000", "-o", str(tmp_path / "out"))
        assert code == 2
        said = f"machine.{option[2:]}: it must be at most {most}\n"
        assert err == f"ladderspec: {said}"
    assert not (tmp_path / "out").exists()


def test_validate_good_files(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "validate", RLADDER, TINY)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"{RLADDER}: fine, 17 levels, 2,861,140 parameters, 5 variants",
        f"{TINY}: fine, 17 levels, 33,120 parameters, 5 variants",
    ]


def test_validate_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "validate", "specs")
    assert code == 0
    assert len(out.splitlines()) == len(list(Path("specs").rglob("*.yaml")))


def test_validate_a_folder_without_specs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "validate", str(tmp_path))
    assert (code, err) == (2, f"ladderspec: {tmp_path} holds no .yaml file\n")
    levels = "levels: [{encoder: {cell: Conv, channels: 2}}]"
    (tmp_path / "a.yml").write_text(f"input: {{channels: 1, size: 8}}\n{levels}\n")
    assert run(capsys, "validate", str(tmp_path))[0] == 0


@pytest.mark.parametrize("name", ["2024", "true", "x: y", "a #b", "mine"])
def test_new_files_have_their_name(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"{name}.yaml"
    assert run(capsys, "new", str(path))[0] == 0
    assert ls.load(path).name == name


def test_validate_experiments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "validate", "specs/experiments/table1_small.yaml")
    assert (code, out) == (0, "specs/experiments/table1_small.yaml: fine, 21 runs\n")
    spec = Path("specs/ommnist/rladder_tiny.yaml").resolve()
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(
        f"spec: {spec}\nparams: {{width: 8}}\ndata: occluded_mnist\n"
        "rows: [{name: a, varient: none}]\ntraining: {updates: 1}\n"
    )
    code, out, err = run(capsys, "validate", str(wrong))
    assert (code, out) == (1, "")
    assert "did you mean `variant`?" in err
    assert "nothing uses the parameter" not in err


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "bad.yaml"
    path.write_text(
        "input: {channels: 1, size: [8, 8]}\n"
        "levels:\n"
        "  - encoder: {cell: convlstm, channels: 4}\n"
        "  - encoder: {cell: Conv, chanels: 4}\n"
    )
    return path


def test_errors_go_to_stderr_all_at_once(bad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "validate", str(bad))
    assert (code, out) == (1, "")
    assert "error[S103]: unknown cell `convlstm`" in err
    assert f"--> {bad}:3:21  (levels[0].encoder.cell)" in err
    assert "did you mean `ConvLSTM`?" in err
    assert "did you mean `channels`?" in err


def test_concise_json_and_github(bad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, _, concise = run(capsys, "validate", str(bad), "--output-format", "concise")
    assert len(concise.splitlines()) == 2
    code, out, _ = run(capsys, "validate", str(bad), "--json")
    found = json.loads(out)
    assert code == 1
    assert [(f["code"], f["line"], f["column"]) for f in found] == [
        ("S103", 3, 21),
        ("S101", 4, 27),
    ]
    _, out, _ = run(capsys, "validate", str(bad), "--output-format", "github")
    assert out.splitlines()[0].startswith(f"::error file={bad},line=3,col=21,")


def test_validate_json_of_good_files_is_empty(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "validate", TINY, "--json")
    assert (code, json.loads(out)) == (0, [])


def test_missing_file_is_usage(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "validate", "nowhere.yaml")
    assert code == 2
    assert "cannot read nowhere.yaml: no such file or directory" in err
    assert run(capsys, "show", "nowhere.yaml")[0] == 2


def test_show_prints_the_paper_s_table(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "show", RLADDER)
    assert code == 0
    rows = out.splitlines()
    assert rows[5].split() == ["lstm1", "ConvLSTM", "1", "32", "3", "32x32x32", "75,392",
                               "convG3", "9", "input", "1x32x32", "85,728"]  # fmt: skip
    assert "2,861,140 parameters (encoder 425,972, rest 2,435,168); frames: 5" in rows
    assert any("no_decoder_to_encoder" in row and "2,786,516" in row for row in rows)


def test_show_says_what_was_pruned(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "show", RLADDER, "--variant", "no_prediction")
    assert "note: decoder.input pruned: no task reads it, now or at a later t" in out


def test_show_markdown_latex_json(capsys: pytest.CaptureFixture[str]) -> None:
    _, markdown, _ = run(capsys, "show", TINY, "--format", "markdown")
    assert "| conv_1 | Conv | 1 | 4 | 3 | 4x16x16 | 152 |" in markdown
    _, latex, _ = run(capsys, "show", TINY, "--format", "latex")
    assert r"\toprule" in latex
    assert r"conv\_1 & Conv" in latex
    columns = latex.split(r"\begin{tabular}{")[1].split("}")[0]
    body = [line for line in latex.splitlines() if line.endswith(r"\\") and "multi" not in line]
    assert all(line.count("&") == len(columns) - 1 for line in body)
    _, out, _ = run(capsys, "show", TINY, "--json")
    facts = json.loads(out)
    assert facts["parameters"] == 33120
    assert len(facts["rows"]) == 17
    assert facts["variants"][0] == {
        "name": "no_prediction",
        "title": "RLadder w/o prediction task",
        "parameters": 31476,
    }


def test_graph_json_is_read_by_networkx_and_by_us(capsys: pytest.CaptureFixture[str]) -> None:
    from ladderspec.wiring.graph_json import dumps, loads

    _, out, _ = run(capsys, "graph", RLADDER, "--json")
    theirs = nx.node_link_graph(json.loads(out), edges="edges")
    assert (len(theirs), theirs.number_of_edges()) == (33, 53)
    assert dumps(loads(out)) + "\n" == out


def test_graph_json_of_something_else_is_refused() -> None:
    from ladderspec.errors import UsageError
    from ladderspec.wiring.graph_json import loads

    for text in ("", "[]", "{}", '{"graph": {"format": "other"}}', "null"):
        with pytest.raises(UsageError, match="no graph of ladderspec"):
            loads(text)


def test_diff_of_a_variant(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "diff", RLADDER, "--without", "decoder_to_encoder")
    assert code == 1
    assert out.splitlines() == [
        "- arrow decoder.lstm1(t-1) -> encoder.lstm1  decoder_to_encoder  (-36,992 parameters)",
        "- arrow decoder.lstm6(t-1) -> encoder.lstm6  decoder_to_encoder  (-36,992 parameters)",
        "- arrow decoder.top(t-1) -> encoder.top  decoder_to_encoder  (-640 parameters)",
        "parameters: 2,861,140 -> 2,786,516 (-74,624)",
    ]


def test_diff_of_equals_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "diff", TINY, TINY) == (0, "", "")


def test_diff_of_fields_tasks_and_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    changes = ("--set", "encoder.top.channels=8", "--set", "task.digit.weight=2")
    code, out, _ = run(capsys, "diff", TINY, *changes, "--json")
    facts = json.loads(out)
    assert code == 1
    assert facts["parameters"] == [
        33120,
        33120 + sum(d["parameters"] for d in facts["differences"]),
    ]
    top = next(d for d in facts["differences"] if d["name"] == "encoder.top")
    assert top["detail"] == "channels 16 -> 8, shape 16 -> 8"
    digit = next(d for d in facts["differences"] if d["kind"] == "task")
    assert digit["detail"] == "weight 1 -> 2"
    _, out, _ = run(capsys, "diff", RLADDER, "--variant", "no_prediction")
    assert "- node  decoder.input  convG3  (-128 parameters)" in out
    assert "- task  next_frame  prediction" in out


def test_diff_of_nested_fields_and_of_other_cells(capsys: pytest.CaptureFixture[str]) -> None:
    """Fields that only one of the cells has do not differ; `cell` says it."""
    spec = "specs/textured/rtagger_small.yaml"
    _, out, _ = run(capsys, "diff", spec, "--variant", "tagger")
    lines = [line for line in out.splitlines() if line.startswith("~ node  encoder.lstm1 ")]
    assert lines == [
        "~ node  encoder.lstm1  cell ConvLSTM -> Conv, norm.kind batch -> unset  (-48 parameters)"
    ]
    _, out, _ = run(capsys, "diff", spec, "--set", "input.noise.gaussian=0.5")
    assert out.splitlines()[0] == "~ node  encoder.input  noise.gaussian 0.4 -> 0.5"


def test_diff_without_a_second_side_is_usage(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "diff", TINY)
    assert code == 2
    assert "diff needs a second spec" in err


def test_changes_compose(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(
        capsys, "show", RLADDER, "--variant", "no_decoder_to_encoder", "--set", "params.width=4",
        "--add", "decoder.input(t-1) -> encoder.conv_2", "--without", "lateral@conv_*", "--json",
    )  # fmt: skip
    assert code == 0
    assert json.loads(out)["variants"] == []


def test_new_writes_templates_that_are_valid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run(capsys, "new", "--list")
    names = [line.split()[0] for line in out.splitlines()]
    assert {"ladder", "classifier", "sequence", "denoising"} <= set(names)
    for name in names:
        path = tmp_path / f"{name}.yaml"
        assert run(capsys, "new", str(path), "--template", name)[0] == 0
        assert run(capsys, "validate", str(path))[0] == 0
        assert "# yaml-language-server: $schema=" in path.read_text()


def test_new_never_overwrites(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("precious")
    code, _, err = run(capsys, "new", str(path))
    assert code == 2
    assert "exists; --force replaces it" in err
    assert path.read_text() == "precious"
    assert run(capsys, "new", str(path), "--force")[0] == 0
    assert "levels:" in path.read_text()


def test_new_where_nothing_can_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "new", "/nowhere/mine.yaml")
    assert code == 2
    assert "cannot write /nowhere/mine.yaml" in err


def test_completion_knows_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in ("bash", "zsh", "tcsh"):
        code, out, _ = run(capsys, "completion", shell)
        assert code == 0
        assert "--output-format" in out


def test_standard_input() -> None:
    text = "input: {size: [16, 16]}\nlevels: [{encoder: {cell: Conv, channels: 3}}]\n"
    done = subprocess.run(
        [sys.executable, "-m", "ladderspec", "validate", "-"],
        input=text.encode(), capture_output=True, check=False,
    )  # fmt: skip
    assert done.stdout.decode() == "-: fine, 2 levels, 33 parameters\n"


def test_a_terminal_that_lacks_a_character() -> None:
    text = "{title: Größe, input: {size: [4, 4]}, levels: [{encoder: {cell: Conv, channels: 3}}]}"
    done = subprocess.run(
        [sys.executable, "-m", "ladderspec", "show", "-"], input=text.encode(),
        capture_output=True, check=False, env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"Gr\\xf6" in done.stdout


def test_a_closed_pipe_is_no_error() -> None:
    command = f"{sys.executable} -m ladderspec graph {RLADDER} | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, check=False)
    assert done.stderr == b""


TORCH_FREE = [
    ["validate", "-q", RLADDER],
    ["show", RLADDER],
    ["graph", RLADDER, "--json"],
    ["diff", RLADDER, "--variant", "no_prediction"],
    ["new", "-"],
    ["schema"],
    ["completion", "bash"],
]


@pytest.mark.parametrize("words", TORCH_FREE, ids=lambda words: words[0])
def test_no_command_of_the_language_imports_torch(words: list[str]) -> None:
    code = (
        "import sys\nfrom ladderspec.cli import main\n"
        f"main({words!r})\nassert 'torch' not in sys.modules, 'torch was imported'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_a_folder_with_a_pipe_is_validated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "one.yaml").write_text(Path(RLADDER).read_text(encoding="utf-8"), encoding="utf-8")
    os.mkfifo(tmp_path / "pipe.yaml")
    code, out, _ = run(capsys, "validate", str(tmp_path))
    assert code == 0
    assert out.count("fine") == 1


def test_versions(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = run(capsys, "--version")
    assert (code, err) == (0, "")
    found = dict(line.split(" ", 1) for line in out.splitlines())
    assert list(found) == [
        "ladderspec", "python", "torch", "pydantic", "networkx", "numpy", "pillow", "graphviz",
        "safetensors", "pyyaml", "dot",
    ]  # fmt: skip
    needed = [each for each in requires("ladderspec") or [] if "extra ==" not in each]
    assert {each.partition(">")[0] for each in needed} <= {*found}
    assert found["ladderspec"] == ls.__version__
    assert found["networkx"] == nx.__version__
    monkeypatch.setenv("PATH", "")
    assert run(capsys, "--version")[1].endswith("dot not found\n")


def test_versions_import_nothing() -> None:
    code = (
        "import sys; from ladderspec.cli import versions; versions();"
        "print({'torch', 'pydantic', 'networkx', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


# --- advice ---------------------------------------------------------------------------------------

QUICK = "specs/experiments/quickstart.yaml"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("shwo x", "ladderspec: no command `shwo`; did you mean `show`?"),
        ("frobnicate", "ladderspec: no command `frobnicate`; `ladderspec --help` lists them"),
        ("show --jsn x", "ladderspec show: no option `--jsn`; did you mean `--json`?"),
        ("train --see 3 x", "ladderspec train: no option `--see`; did you mean `--seed`?"),
        ("data preview x --cout 3 -o y", "ladderspec data: no option `--cout`; did you mean"),
        (
            "show x --without lateral decoder",
            "ladderspec show: one argument too many: `decoder`; repeat the option for several"
            " values: `--without SELECTOR --without SELECTOR`",
        ),
        (
            "show --without lateral decoder x",
            "ladderspec show: one argument too many: `x`; repeat the option for several values:",
        ),
        (
            "train x --row a b",
            "one argument too many: `b`; several values are joined by commas: `--row NAME,...`",
        ),
        ("-x", "ladderspec: no option `-x`; `ladderspec --help` lists them"),
        ("show", "ladderspec show: SPEC is missing: a spec file"),
        ("data", "ladderspec data: ACTION is missing: `list`, `path`"),
        ("data lst", "ladderspec data: no action `lst`; did you mean `list`?"),
        (
            "data preview occluded_mnist",
            "ladderspec data preview: -o/--output FILE is missing: a .png or .svg file\n",
        ),
        ("data preview x -o y --first z", "--first: expected a number, not 'z'"),
        ("data preview ocluded_mnist -o y", "no data set `ocluded_mnist`; did you mean"),
        ("draw x --view rolld", "ladderspec draw: --view cannot be `rolld`; did you mean `rolled`"),
        ("draw x --dpi", "ladderspec draw: --dpi needs a value\n"),
        ("ablate x --each-role --each-edge", "--each-role and --each-edge: choose one\n"),
        ("plan x y", "ladderspec plan: one argument too many: `y`; `ladderspec plan --help` lists"),
        ("ablate x --only a", "no option `--only`; rows are chosen by `--row NAME,...`"),
        ("ablate x --workers 2", "no option `--workers`; `--processes N` trains so many runs"),
        (f"ablate {QUICK} --of a", "--of would be ignored: it is for --each-role"),
        (f"ablate {QUICK} --each-role --like {QUICK} -o OUT", "--like would be ignored"),
        (f"ablate {QUICK} --table-only --threads 2", "--threads would be ignored: --table-only"),
        (f"train {QUICK} --list --device cpu", "--device would be ignored: --list trains nothing"),
        (f"show {TINY} --json --format latex", "--format would be ignored: --json is a format"),
        (f"show {TINY} --ladder --json", "--json would be ignored: --ladder is text"),
        (f"draw {TINY} --format svg", "--format would be ignored: the suffix of the file says it"),
        (f"draw {TINY} --dpi 300", "--dpi would be ignored: no png file is written"),
        (f"draw {TINY} --worth-of x", "--worth-of would be ignored: there is no --worth"),
        (f"draw {TINY} -o - --open", "--open would be ignored: the drawing goes to"),
        (f"validate {TINY} --json --output-format full", "--output-format would be ignored"),
        ("new --list --force", "--force would be ignored: --list writes nothing"),
        (f"ablate {TINY} --each-role --like {TINY} -o OUT", "--like needs an experiment: specs/"),
        ("generate run --seed 9999999999999999999999", "at most 999,999,999,999,999,999, not"),
        ("generate run --seed 3", "--seed would be ignored: nothing is drawn without --sample"),
        (f"evaluate {TINY}", "is a file, but a trained network is the folder of a run, like out/"),
        (
            "data preview occluded_mnist -o OUT/x.png --set canvas=abc",
            "`canvas` is 'abc': expected a whole number",
        ),
        (
            "data preview occluded_mnist -o OUT/x.png --set canvas=4",
            "`canvas` is 4: it must be at least 8",
        ),
    ],
)
def test_advice(
    words: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, *words.replace("OUT", str(tmp_path)).split())
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.parametrize("command", ["train", "ablate"])
def test_a_spec_is_no_experiment(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, command, TINY)
    assert code == 1
    assert err.count("error[") == 1
    assert "this is a spec, not an experiment" in err
    assert "`spec: rladder_tiny.yaml`, beside `data`" in err


def test_diff_of_mistakes_is_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("input: {channels: 1}\nlevels: [{encoder: {cell: Cov, channels: 2}}]\n")
    code, out, err = run(capsys, "diff", TINY, str(wrong))
    assert (code, out) == (2, "")
    assert err.startswith("error[S103]")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "not enough memory"),
        (
            MemoryError("Unable to allocate 7.11 PiB for an array"),
            "not enough memory: tried to allocate 7.11 PiB",
        ),
    ],
)
def test_missing_memory_is_no_traceback(
    error: MemoryError,
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hungry(*_: object) -> object:
        raise error

    monkeypatch.setattr("ladderspec.cli.export.build", hungry)
    assert run(capsys, "export", TINY, "-o", "tiny.onnx") == (2, "", f"ladderspec: {said}\n")


def test_a_full_disk_is_no_traceback() -> None:
    for words in (["show", TINY], ["draw", TINY, "-o", "-"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "ladderspec", *words],
                stdout=full, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
        said = "ladderspec: cannot write: no space left on device\n"
        assert (done.returncode, done.stderr) == (2, said)


@pytest.mark.parametrize(
    ("words", "note"),
    [
        ("", "is 38.8 cm high (a page has 24 cm); try --height 24cm or --group"),
        ("--view rolled", "is 39.2 cm high (a page has 24 cm); try --height 24cm or --group"),
        ("--height 24cm", ""),
        ("--width 17cm --group", ""),
        ("--view rolled --group --width 8.5cm", ""),
        ("--group", ""),  # 25 cm wide, but words are readable with --width 17cm
        ("-n 4 --group", "words of 4.1 points at the width of a page, 17 cm; try --view rolled"),
        ("--width 8.5cm --group", "has words of 4.1 points; try --view rolled"),
        ("--view mini -n 5", ""),
        ("--view mini --beside hierarchical_rnn", "cm high (a page has 24 cm); try --height"),
        ("--view rolled --fold --height 5cm", "words of 1.6 points; try --show LEVELS"),
    ],
)  # fmt: skip
def test_a_drawing_that_does_not_fit_a_page(
    words: str, note: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "a.svg")
    code, _, err = run(capsys, "draw", RLADDER, *words.split(), "-o", path)
    assert code == 0
    assert note in err
    assert bool(err) == bool(note)


def test_a_drawing_of_standard_input_is_named_after_the_spec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path(TINY).with_name("rladder.yaml").read_bytes()
    monkeypatch.chdir(tmp_path)
    with (tmp_path / "in").open("wb") as file:
        file.write(text)
    with (tmp_path / "in").open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert run(capsys, "draw", "-")[:2] == (0, "wrote rladder-ommnist.svg\n")


def test_set_changes_all_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from ladderspec.experiments.reader import open_experiment

    changes = ["training.updates=3", "task.next_frame.weight=2", "seeds=2"]
    changes += ["evaluation.split=valid"]
    before, after = open_experiment(QUICK), open_experiment(QUICK, changes=changes)
    assert len(after.runs) == 2 * len(before.runs)
    assert all(run.training.updates == 3 for run in after)
    assert all(run.evaluation.split == "valid" for run in after)
    assert all(run.spec.config.tasks["next_frame"].weight == 2 for run in after)
    assert {run.training.batch for run in after} == {16}
    file = tmp_path / "mine.yaml"
    file.write_text(
        "extends: ladderspec:experiments/quickstart\n"
        "rows: [{name: both, training: {epochs: 2}}]\nbase: both\nbaselines: []\n"
    )
    (long,) = open_experiment(file, changes=["training.updates=7"])  # before that of the row
    assert (long.training.updates, long.training.epochs) == (7, None)
    code, _, err = run(capsys, "train", QUICK, "--set", "training.updats=3", "--list")
    assert code == 1
    assert "did you mean `updates`?" in err
    code, _, err = run(capsys, "train", QUICK, "--set", "training", "--list")
    assert "`training` sets nothing" in err
    words = ["--row", "state,feedback", "--seed", "4,5"]
    code, out, _ = run(capsys, "train", *words, QUICK, "--list")
    assert [line.split()[0] for line in out.splitlines()] == [
        f"{row}.seed{seed}" for row in ("feedback", "state") for seed in (4, 5)
    ]


GROUPED = "specs/experiments/table4_small.yaml"  # of some rows without groups


def test_rows_that_cannot_take_a_change(capsys: pytest.CaptureFixture[str]) -> None:
    change = ["--set", "groups.start.pixel=0", "--seed", "5", "--split", "valid", "--list"]
    code, out, err = run(capsys, "train", GROUPED, "--row", "rtagger", *change)
    assert (code, out, err) == (0, "rtagger.seed5  RTagger\n", "")
    code, out, err = run(capsys, "train", GROUPED, "--row", "convnet", *change)
    why = "`groups.start.pixel` cannot be set: the spec has no `groups`"
    assert (code, out) == (1, "")
    assert err.startswith(f"error[G202]: row `convnet`: {why}\n  --> --set:1:1  ")
    _, _, err = run(capsys, "train", GROUPED, *change)
    assert err.count("error[") == 1
    assert err.startswith(f"error[G202]: rows `convnet` and `convnet_1000`: {why}\n")


def test_a_start_of_a_chosen_row_takes_the_changes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "other.yaml").write_text(SPEC.replace("lstm1", "rnn1"))
    rows = "name: first, spec: other.yaml}\n  - {name: second, start: first}\n  - {name: ladder,"
    place = str(experiment(tmp_path, EXPERIMENT.replace("name: ladder,", rows)))
    change = ["--set", "encoder.lstm1.channels=3", "--list"]
    assert run(capsys, "train", place, "--row", "ladder", *change)[0] == 0
    code, _, err = run(capsys, "train", place, "--row", "second", *change)
    assert code == 1
    assert "row `first`: no `encoder.lstm1` to set" in err


def test_names_of_files_cannot_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder of others may hold a file of any name."""
    name = "a\x1b[31m.yaml"
    place = tmp_path / name
    said = run(capsys, "new", str(place))
    assert said[0] == 0
    for words in (
        ["validate", str(tmp_path)],
        ["draw", str(place), "-o", str(tmp_path / f"{name}.svg")],
        ["export", str(place), "-o", str(tmp_path / f"{name}.py")],
        ["schema", "-o", str(tmp_path / f"{name}.json")],
    ):
        said += run(capsys, *words)
        assert said[-3] == 0
    place.write_text("levels: 3\n")
    for form in ("full", "concise", "github"):
        said += run(capsys, "validate", str(tmp_path), "--output-format", form)
        assert said[-3] == 1
    assert "\x1b" not in "".join(map(str, said))
    assert "a\\x1b[31m.yaml" in said[1]


def test_streams_that_are_closed() -> None:
    """As in `ladderspec show - <&- >&- 2>&-`."""
    for words, code in (["show", TINY], 0), (["show", "-"], 1):
        command = "import sys; from ladderspec.cli import main; sys.exit(main(sys.argv[1:]))"
        closed = "exec {} -c '{}' {} <&- >&- 2>&-".format(sys.executable, command, " ".join(words))
        assert subprocess.run(["sh", "-c", closed], check=False).returncode == code


def test_a_current_folder_that_is_gone(tmp_path: Path) -> None:
    """A library of torch would end the process with a message of its own."""
    place, gone = experiment(tmp_path), tmp_path / "gone"
    gone.mkdir()
    code = (
        "import os, sys; from ladderspec.cli import main;"
        " os.chdir(sys.argv[1]); os.rmdir(sys.argv[1]); sys.exit(main(sys.argv[2:]))"
    )
    words = [str(gone), "train", str(place), "-o", str(tmp_path / "out")]
    found = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    message = "ladderspec: the current folder no longer exists; change to another one\n"
    assert (found.returncode, found.stderr) == (2, message)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("place", [".", "/", ""])
@pytest.mark.parametrize("command", ["show", "train", "ablate", "evaluate"])
def test_places_without_a_name(
    command: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert run(capsys, command, place)[0] == 2


def test_a_plugin_that_exits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.py").write_text("import sys\nsys.exit(0)\n")
    code, out, err = run(capsys, "show", TINY, "--plugin", str(tmp_path / "mine.py"))
    assert (code, out) == (2, "")
    assert err.endswith("mine.py fails: SystemExit(0)\n")


def test_a_function_of_a_plugin_that_exits(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ladderspec.cli.show.run_show", lambda args: sys.exit(3))
    code, out, err = run(capsys, "show", TINY)
    assert (code, out) == (2, "")
    assert err == "ladderspec: a plug-in ended the command with SystemExit(3)\n"
