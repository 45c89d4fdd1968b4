"""An exported file: the same numbers from the same weights, in text that linters leave alone."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import math
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from hypothesis import Phase, given, settings
from torch import Tensor, nn

from ladderspec.api import build, graph, load, loads
from ladderspec.cells import ACTIVATIONS, NORMS, register_norm
from ladderspec.cli import fill, main
from ladderspec.errors import UsageError
from ladderspec.export import to_python
from ladderspec.export.heading import class_name
from ladderspec.language.read import Spec
from ladderspec.names import LEVEL_NAME
from ladderspec.network.inputs import noisy as add_noise
from ladderspec.network.net import Net
from ladderspec.plugins import load_plugin
from tests.interpreter import Interpreter, apart, read
from tests.random_specs import specs

SPECS = sorted(p for p in Path("specs").rglob("*.yaml") if "experiments" not in p.parts)
SOME = settings(deadline=None, max_examples=40, derandomize=True, phases=[Phase.generate])


@pytest.fixture(autouse=True)
def _quiet(one_thread):
    yield
    torch.set_default_dtype(torch.float32)


# --- specs ----------------------------------------------------------------------------------------


def shipped() -> list[tuple[str, str | None]]:
    """Every spec with its variants; those that only change sizes, once."""
    found: list[tuple[str, str | None]] = []
    for path in SPECS:
        variants = [] if path.stem.endswith(("_small", "_tiny")) else load(path).config.variants
        found += [(str(path), variant) for variant in [None, *variants]]
    return found


def tiny(path: str, variant: str | None) -> Spec:
    smaller = {"width": 2, "frames": 4}  # rounding errors grow over many frames
    params = load(path).config.params
    width = {f"params.{name}": value for name, value in smaller.items() if name in params}
    return load(path, variant, set=width)


HEAD = "input: {channels: 2, size: [5, 6], initial: learned}\ntime: {frames: 3}\n"
FIELDS = {  # what no shipped spec says
    "norms": """
levels:
  - {name: a, encoder: {cell: Conv, channels: 3, norm: joint}, decoder: {cell: convG3, norm: joint}}
  - {name: b, encoder: {cell: Conv, channels: 3, norm: layer}, decoder: {cell: convG3, norm: batch}}
  - {name: c, encoder: {cell: Conv, channels: 3, norm: none}, decoder: {cell: convG2, norm: joint}}
  - name: d
    encoder: {cell: ConvLSTM, channels: 2, norm: {kind: batch, terms: joint}}
    decoder: {cell: convG1, norm: layer}
  - {name: e, encoder: {cell: ConvLSTM, channels: 2, norm: none}, decoder: convG1}
  - {name: f, encoder: {cell: GRU, channels: 3, norm: {kind: layer, terms: joint}}}
  - {name: g, encoder: {cell: LSTM, channels: 3, norm: layer}, decoder: {cell: G1, norm: none}}
  - {name: class, encoder: {cell: SoftMax, channels: 4, norm: joint}, decoder: {cell: G1}}
edges: {decoder_to_encoder: all}
""",
    "shared": """
levels:
  - {name: a, encoder: {cell: ConvLSTM, channels: 2}, decoder: {cell: convG3}}
  - {name: b, encoder: {cell: ConvLSTM, channels: 2, share: a}, decoder: {cell: convG3, share: a}}
  - {name: c, encoder: {cell: ConvLSTM, channels: 2, stride: 2, share: a, initial: learned}}
  - {name: class, encoder: {cell: SoftMax, channels: 4}}
without: [level.a]
edges:
  add:
    - encoder.input -> encoder.c
    - {arrow: encoder.input(t-1) -> encoder.c, share: encoder.input -> encoder.c}
""",
    "activations": """
levels:
  - {name: a, encoder: {cell: Conv, channels: 2, norm: none, activation: elu}, decoder: Conv}
  - {name: b, encoder: {cell: Conv, channels: 2, activation: gelu}}
  - {name: c, encoder: {cell: Conv, channels: 2, activation: silu}}
  - {name: d, encoder: {cell: FC, channels: 4, activation: sigmoid}, decoder: {cell: FC}}
  - {name: e, encoder: {cell: FC, channels: 4, norm: none, activation: leaky_relu}, decoder: FC}
  - {name: f, encoder: {cell: FC, channels: 4, norm: none, activation: leaky_relu}}
  - {name: g, encoder: {cell: FC, channels: 4, norm: layer, activation: softplus}}
tasks:
  frame: {kind: prediction, at: decoder.input}
  last: {kind: classification, at: encoder.g}
""",
    "sizes": """
levels:
  - name: a
    encoder: {cell: Conv, channels: 2, filter: [2, 3], stride: [2, 1]}
    decoder: {cell: convG3, filter: 4, inner: 3, inner_filter: [2, 3]}
  - {name: b, encoder: {cell: Pool, filter: 3, stride: 2}, decoder: Average}
  - {name: c, encoder: {cell: Pool, mode: average, filter: 2, stride: 1}, decoder: {cell: convG2}}
  - {name: d, encoder: {cell: Pool, mode: average, filter: 2}, decoder: {cell: convG2, inner: 4}}
  - {name: e, encoder: {cell: Pool, filter: global}, decoder: Average}
top: {cell: FC, norm: none}
edges:
  add:
    - decoder.e(t-2) -> encoder.a
    - decoder.e(t-1) -> decoder.c
    - encoder.e(t-1) -> decoder.input
""",
    "starts": """
levels:
  - name: a
    encoder: {cell: ConvLSTM, channels: 2, forget_bias: 0, gate_bias: 2}
    decoder: {cell: convG1, w: ladder}
  - name: b
    encoder: {cell: ConvLSTM, channels: 2, gate_bias: -1, initial: learned}
    decoder: {cell: convG2, w: ladder}
  - name: c
    encoder: {cell: LSTM, channels: 3, initial: learned}
    decoder: {cell: G1, w_s: ladder}
  - name: d
    encoder: {cell: GRU, channels: 3}
    decoder: {cell: G1, w: [1, 2, 3, 4, 5], initial: learned}
laterals: {a: {cell: ConvLSTM, channels: 2}, input: {cell: Conv, channels: 2}}
edges:
  decoder_to_encoder: {delay: 2}
  state: {delay: 2}
  add:
    - encoder.input(t-1) -> encoder.b
    - encoder.b(t-1) -> decoder.b
    - {from: encoder.b(t-1), to: encoder.a, norm: none}
""",
    "statistics": """
levels:
  - {name: half, encoder: {cell: Conv, channels: 2, statistics: shared}, decoder: {cell: convG1}}
  - {name: train, encoder: {cell: Conv, channels: 2}, decoder: {cell: convG1, statistics: shared}}
  - {name: values, encoder: {cell: FC, channels: 2, norm: none}, decoder: {cell: G1, norm: layer}}
  - {name: class, encoder: {cell: SoftMax, weights: none}, decoder: Identity}
edges: {recurrent_decoder: all, add: [{from: encoder.input, to: encoder.train, norm: none}]}
tasks:
  kind: {kind: classification, at: encoder.class}
  keys: {kind: probe, at: "decoder.*", target: place, head: 2}
  next: {kind: prediction, at: decoder.half, head: 2}
  forward: {kind: denoising, at: encoder.values, head: 60}
""",
    "repeats": """
levels:
  - {name: a, repeat: 9, encoder: {cell: Conv, channels: 2}, decoder: {cell: convG3}}
  - {name: b, repeat: 9, encoder: {cell: Conv, channels: 3}, decoder: {cell: convG3}}
  - {name: c, repeat: 2, encoder: {cell: FC, channels: 3}}
tasks: {}
""",
}


GROUPED = {
    "gaussian": """
input: {channels: 3, size: [5, 6], noise: {gaussian: 0.2}}
time: {iterations: 3}
groups: {count: 3, variance: {learned: 0.3}, start: {pixel: 2, group: 0.5}}
levels:
  - name: a
    encoder: {cell: ConvLSTM, channels: 4, filter: 4, stride: 2, norm: batch, initial: learned}
    decoder: {cell: Readout, filter: 4}
  - name: b
    encoder: {cell: Conv, channels: 4, filter: 4, stride: [1, 3]}
    decoder: {cell: convG1, filter: 4}
  - {name: class, encoder: {cell: SoftMax, channels: 4}, decoder: G1}
edges: {add: [decoder.input(t-2) -> encoder.b]}
tasks: {digit: {kind: classification, at: encoder.class, none: last}, segment: {kind: grouping}}
""",
    "bernoulli": """
input: {channels: 1, size: [6, 4], noise: {flip: 0.2}}
time: {frames: any}
groups: {count: 2, likelihood: bernoulli}
levels:
  - name: a
    encoder: {cell: ConvGRU, channels: 3, filter: 4, stride: 2}
    decoder: {cell: Readout, filter: 4, norm: layer}
  - {name: b, encoder: {cell: Pool, mode: average, filter: global}, decoder: Average}
  - {name: c, encoder: {cell: FC, channels: 3}, decoder: G1}
edges: {recurrent_decoder: all, downward_diagonal: all}
tasks:
  segment: {kind: grouping, ahead: 1}
  place: {kind: probe, at: "encoder.*", target: place, head: 2}
""",
    "vectors": """
input: {channels: 7, noise: {flip: 0.2}}
time: {iterations: 2}
groups: {count: 4, likelihood: bernoulli, start: {pixel: 1, group: 0}}
defaults: {G1: {w: ladder, w_s: ladder, gate: sigmoid}}
levels:
  - {name: h1, encoder: {cell: FC, channels: 5}, decoder: {cell: Readout, norm: none}}
  - {name: h2, encoder: {cell: FC, channels: 3}, decoder: G1}
tasks: {segment: {kind: grouping}}
""",
}


def everything() -> dict[str, Spec]:
    found = {f"{path}:{variant}": load(path, variant) for path, variant in shipped()}
    found |= {name: loads(text) for name, text in GROUPED.items()}
    return found | {name: loads(HEAD + text) for name, text in FIELDS.items()}


# --- the networks ---------------------------------------------------------------------------------


def exported(spec: Spec) -> nn.Module:
    """The network of the exported file."""
    module = ModuleType("model")
    exec(compile(to_python(spec, "Exported"), "model.py", "exec"), module.__dict__)
    model: nn.Module = module.Exported()
    return model


def three_of(spec: Spec, wiggle: float = 0.1) -> tuple[nn.Module, Interpreter, Net]:
    """Exported, interpreted and built, with the same weights, away from starts like 0 and 1."""
    model, plain, net = exported(spec), Interpreter(graph(spec)), build(spec)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(wiggle * torch.randn_like(parameter))
        for buffer in net.buffers():
            buffer.add_(wiggle * torch.rand_like(buffer))
    weights = net.state_dict()
    model.load_state_dict(weights)
    plain.load_state_dict({k: v for k, v in weights.items() if k in plain.state_dict()})
    return model, plain, net


def called(model: nn.Module, inputs: dict[str, Tensor]) -> Any:
    """As the network is called: a single input alone, several by name."""
    return model(inputs if len(inputs) > 1 else inputs["input"])


def frames_of(net: Net, batch: int) -> dict[str, Tensor]:
    """Random inputs by name, first the frames."""
    time = () if net.plan.iterations else (net.plan.length or 4,)
    return {
        form.name: torch.rand(batch, *(time if form.timed else ()), *form.shape)
        for form in net.inputs.forms
    }


def noisy(net: Net, inputs: dict[str, Tensor], factor: float = 1.0) -> dict[str, Tensor]:
    torch.manual_seed(1)
    frames = add_noise(inputs["input"], net.noise) if net.training else inputs["input"]
    return {**inputs, "input": frames * factor}


def seen_by(net: Net, plain: Interpreter, frames: dict[str, Tensor]) -> dict[str, Tensor]:
    """What the tasks see in the interpreter's history, under the names of the exported file."""
    history = plain(frames)
    found = {}
    for name, readouts in net.readouts.items():
        for node, readout in readouts.items():
            value = read(history, node)
            seen = readout(value.flatten(0, 1)).unflatten(0, value.shape[:2])
            found[f"{name}.{node}" if len(readouts) > 1 else name] = apart(seen, net.graph)
    if found:
        return found
    nodes = [node for node in net.plan.equations if node != "encoder.input"]
    series = {node: torch.stack([at[node][0] for at in history], dim=1) for node in nodes}
    return {node: apart(value, net.graph) for node, value in series.items()}


def distance(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> float:
    """The largest difference, relative to the largest entry where that is above 1."""
    assert ours.keys() == theirs.keys()
    return max(
        ((ours[name] - theirs[name]).abs().max() / theirs[name].abs().max().clamp(min=1)).item()
        for name in theirs
    )


def gradients(module: nn.Module, seen: dict[str, Tensor], names: list[str]) -> dict[str, Tensor]:
    """Of the mean square of all that is seen, by parameter; relative to the largest of them."""
    cost = torch.stack([seen[name].square().mean() for name in names]).sum()
    owned = {k: p for k, p in module.named_parameters() if not k.startswith("task.")}
    found = torch.autograd.grad(cost, list(owned.values()), materialize_grads=True)
    scale = max(gradient.abs().max().item() for gradient in found) or 1.0
    return {f"grad {key}": g / scale for key, g in zip(owned, found, strict=True)}


@contextmanager
def fixed_noise(spec: Spec) -> Iterator[None]:
    """Random numbers that follow from their shape, if cells have noise: order is another matter."""

    def numbers(*given: Any) -> Tensor:
        shape = given if isinstance(given[0], int) else tuple(given[0])
        return torch.linspace(-1, 1, math.prod(shape)).view(shape).sin()

    cells = [graph(spec).nodes[node]["cell"] for node in graph(spec)]
    with pytest.MonkeyPatch.context() as patch:
        if any(cell.noise and cell.cell != "Input" for cell in cells):
            patch.setattr(torch, "randn", numbers)
            patch.setattr(torch, "randn_like", lambda x: numbers(*x.shape))
        yield


def check_equal(spec: Spec, batch: int = 4) -> None:
    """In float64, in evaluation and in training: outputs, gradients and running statistics."""
    torch.set_default_dtype(torch.float64)
    three = three_of(spec)
    with fixed_noise(spec):
        compare(*three, batch)


def compare(model: nn.Module, plain: Interpreter, net: Net, batch: int) -> None:
    frames = frames_of(net, batch)
    for training in (False, True):
        for each in (model, plain, net):
            each.train(training)
        before = {name: buffer.clone() for name, buffer in plain.named_buffers()}
        torch.manual_seed(1)
        ours = called(model, frames)
        theirs = seen_by(net, plain, noisy(net, frames))
        tasks = list(theirs)
        if training:
            ours |= gradients(model, ours, tasks)
            theirs |= gradients(plain, theirs, tasks)
        ours |= {name: b for name, b in model.named_buffers() if not name.startswith("task.")}
        theirs |= dict(plain.named_buffers())
        error, allowed = distance(ours, theirs), 1e-9
        if error > allowed:  # norms of values that hardly differ are ill-conditioned
            plain.load_state_dict(before, strict=False)
            nudged = seen_by(net, plain, noisy(net, frames, 1 + 1e-15))
            nudged |= gradients(plain, nudged, tasks) if training else {}
            allowed = 100 * distance(nudged, {name: theirs[name] for name in nudged})
        assert error <= allowed, f"training: {training}"


# --- numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("path", "variant"), shipped())
def test_shipped_specs_give_the_same_numbers(path, variant):
    check_equal(tiny(path, variant))


@pytest.mark.parametrize("name", FIELDS)
def test_every_cell_and_field_gives_the_same_numbers(name):
    check_equal(loads(HEAD + FIELDS[name]))


@pytest.mark.parametrize("name", GROUPED)
def test_groups_give_the_same_numbers(name):
    spec = loads(GROUPED[name])
    check_equal(spec)
    check_outputs(spec)


def test_the_start_of_groups_is_drawn_in_training_alone():
    spec = loads(GROUPED["vectors"].replace(", noise: {flip: 0.2}", ""))
    model, x = exported(spec), torch.rand(2, 7)
    assert not torch.equal(model(x)["segment"], model(x)["segment"])
    model.eval()
    assert torch.equal(model(x)["segment"], model(x)["segment"])


def check_outputs(spec: Spec) -> None:
    """In evaluation, the exported file sees what the built network sees."""
    net, model = build(spec), exported(spec)
    model.load_state_dict(net.state_dict())
    assert between(model, net, frames_of(net, 2)) < 1e-9


def between(model: nn.Module, net: Net, frames: dict[str, Tensor]) -> float:
    """The distance between the outputs of an exported and of a built network in evaluation."""
    theirs = {
        f"{name}.{node}" if node else name: value
        for name, seen in net.eval()(frames).items()
        for node, value in (seen if isinstance(seen, dict) else {"": seen}).items()
    }
    return distance(called(model.eval(), frames), theirs)


@given(specs())
@SOME
def test_random_specs_give_the_same_numbers(spec):
    check_equal(spec)


@given(specs(grouped=True))
@SOME
def test_random_specs_with_groups_give_the_same_numbers(spec):
    check_equal(spec)
    check_outputs(spec)


@given(specs(inputs=True))
@SOME
def test_random_specs_with_several_inputs_give_the_same_numbers(spec):
    check_equal(spec)
    check_outputs(spec)


@given(specs(grouped=True, inputs=True))
@SOME
def test_random_specs_with_groups_and_inputs_give_the_same_numbers(spec):
    check_equal(spec)
    check_outputs(spec)


@pytest.mark.parametrize(("path", "variant"), shipped())
def test_in_float32_it_is_as_exact_as_the_cells_themselves(path, variant):
    model, plain, net = (each.eval() for each in three_of(tiny(path, variant), wiggle=0))
    frames = frames_of(net, batch=2)
    theirs = seen_by(net, plain, frames)
    exact = seen_by(net.double(), plain.double(), {n: v.double() for n, v in frames.items()})
    assert distance(called(model, frames), theirs) <= max(1e-6, 2 * distance(theirs, exact))


@pytest.mark.parametrize("name", ["activations", "sizes", "starts"])
def test_it_starts_as_the_built_network_does(name):
    """Every parameter with the same mean and spread; constants are the same."""
    spec = loads(re.sub(r"channels: \d", "channels: 24", HEAD + FIELDS[name]))
    built = dict(build(spec).named_parameters())
    for key, parameter in exported(spec).named_parameters():
        ours, theirs = parameter.detach().flatten(), built[key].detach().flatten()
        if key.rpartition(".")[2] in ("weight", "W_s", "D", "E"):
            tolerance = 5 * theirs.std() * (2 / len(theirs)) ** 0.5
            assert (ours.mean() - theirs.mean()).abs() < tolerance, key
            assert (ours.std() - theirs.std()).abs() < tolerance, key
        else:
            assert torch.equal(ours, theirs), key


def test_groups_start_as_in_the_built_network():
    spec = loads(re.sub(r"channels: 4", "channels: 24", GROUPED["gaussian"]))
    built, found = build(spec), exported(spec)
    theirs, ours = built.state_dict(), found.state_dict()
    for name in ("decoder.input.decoder.weight", "decoder.a.decoder.weight"):
        rows, columns = (2, 2) if "input" in name else (1, 3)
        assert len(ours[name].unique()) == len(theirs[name].unique()) < ours[name].numel()
        coarse = ours[name][..., ::rows, ::columns]
        fine = coarse.repeat_interleave(rows, -2).repeat_interleave(columns, -1)
        assert torch.equal(fine[..., :4, :4], ours[name])
        assert ours[name].std().item() == pytest.approx(theirs[name].std().item(), rel=0.2)
    assert ours["decoder.input.noise"].std().item() == pytest.approx(1, abs=0.2)
    for name in ("c", "b", "c_pi", "mean", "std"):
        assert torch.equal(ours[f"decoder.input.{name}"], theirs[f"decoder.input.{name}"])
    assert torch.equal(ours["encoder.groups.log_variance"], theirs["encoder.groups.log_variance"])
    buffers = [name for name, _ in built.named_buffers()]
    assert sorted(name for name, _ in found.named_buffers()) == sorted(buffers)


# --- text -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """All exported files."""
    place = tmp_path_factory.mktemp("models")
    for index, spec in enumerate(everything().values()):
        (place / f"model_{index}.py").write_text(to_python(spec), encoding="utf-8")
    return place


def test_formatters_leave_it_alone(folder):
    ruff(folder, "format", "--check", "--line-length", "100")


def test_linters_find_nothing(folder):
    ruff(folder, "check", "--extend-select", "I,B,UP,E,N,RUF,SIM,C4", "--line-length", "100")


def ruff(folder: Path, command: str, *options: str) -> None:
    words = [sys.executable, "-m", "ruff", command, "--isolated", "--no-cache", *options, folder]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# Lines of the files that an earlier exporter with hand-written templates made.
LINES = {
    "convnet/model_c": 174,
    "music/rladder": 467,
    "ommnist/appendix_c": 514,
    "ommnist/rladder": 481,
    "ommnist/static_classifier": 205,
    "ommnist/temporal_baseline": 256,
    "related/feedback_convrnn": 254,
    "related/ladder": 247,
    "related/unet": 270,
    "related/video_ladder": 280,
}


@pytest.mark.parametrize("name", LINES)
def test_files_are_as_short_as_written_by_hand(name):
    lines = to_python(load(f"specs/{name}.yaml")).count("\n")
    assert lines <= 1.2 * LINES[name], lines


def test_it_needs_torch_only(folder):
    for path in folder.iterdir():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        names = {getattr(node, "module", None) or node.names[0].name for node in imports}
        assert names <= {"torch", "torch.nn", "collections", "collections.abc", "itertools"}


def test_it_shows_every_row_of_the_table():
    text = to_python(load("specs/ommnist/rladder.yaml"))
    table, code = text.split('"""', 2)[1:]
    for level in graph(load("specs/ommnist/rladder.yaml")).graph["levels"]:
        assert re.search(rf"^    {level} ", table, re.MULTILINE), level
    assert "# lstm1: ConvLSTM, channels: 32, filter: 3, forget_bias: -1.0, gate_bias: 2.0" in code
    assert "convG3, filter: 9" in code
    assert "# conv_1 ... conv_3: Conv, channels: 32, filter: 3 | convG3, filter: 3" in code
    assert 'for below, level in pairwise(["lstm1", "conv_1", "conv_2", "conv_3"]):' in code
    assert "    u = relu(LN(A * v_top) + LN(B * h) + c)" in code
    assert "d_lstm1 = decoder[" in code
    assert "joint" not in code
    assert "GRU" not in code


def test_repeats_are_one_loop():
    code = to_python(loads(HEAD + FIELDS["repeats"]))
    for first, stem in (("input", "a"), ("b_1", "b")):
        names = ", ".join(f'"{n}"' for n in (first, *(f"{stem}_{k}" for k in range(1, 10))))
        names = names.replace('"b_1", "b_1"', '"b_1"')
        assert re.search(rf"for below, level in pairwise\(\s*\[{names}\],?\s*\):", code)


def test_the_class_is_called_like_the_spec():
    for spec, name in [
        (load("specs/ommnist/rladder.yaml"), "RLadderOmmnist"),
        (loads("name: 3-cell\n" + HEAD + FIELDS["repeats"]), "Net3Cell"),
    ]:
        assert class_name(graph(spec), spec.config, set()) == name
    spec = loads("name: layer\n" + HEAD + FIELDS["repeats"])
    assert "class NetLayer(nn.Module):" in to_python(spec)
    for name in ("not a name", "class", "Layer", "torch"):
        with pytest.raises(UsageError, match=name):
            to_python(spec, name)


def test_levels_and_tasks_may_have_the_names_of_attributes():
    names = [n for n in dir(nn.ModuleDict()) if LEVEL_NAME.fullmatch(n) and n != "training"]
    rows = "".join(f"  - {{name: {n}, encoder: {{cell: FC, channels: 2}}}}\n" for n in names)
    tasks = "".join(
        f"  {n}: {{kind: probe, at: encoder.{n}, target: place, head: 2}}\n" for n in names
    )
    spec = loads(f"input: {{channels: 2}}\ntime: {{frames: 3}}\nlevels:\n{rows}tasks:\n{tasks}")
    assert len(names) > 50
    check_outputs(spec)


def test_what_users_write_cannot_break_out_of_a_docstring():
    text = r'''{name: 'a """ b', title: 'c\d """', description: "e\nf\"", '''
    spec = loads(
        text + "input: {channels: 2}, levels: [{name: a, encoder: {cell: FC, channels: 2}}]}"
    )
    assert ast.get_docstring(ast.parse(to_python(spec))).startswith("a ''' b: c\\d '''.\n\ne f'\n")


# --- the command ----------------------------------------------------------------------------------


def run(*words: str) -> int:
    args = fill(argparse.ArgumentParser(), "export").parse_args(words)
    code: int = args.run(args)
    return code


def test_the_command_writes_or_prints(tmp_path, capsys):
    path = tmp_path / "model.py"
    path.write_text("old")
    words = ["specs/ommnist/rladder_tiny.yaml", "--variant", "hierarchical_rnn", "--class", "Tiny"]
    assert run(*words, "-o", str(path)) == 0
    assert capsys.readouterr().out == f"wrote {path}\n"
    assert run(*words) == 0
    assert capsys.readouterr().out == path.read_text()
    assert "class Tiny(nn.Module):" in path.read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-o", "model.txt"], "`model.txt` names no format: .py is PyTorch, .onnx one iteration"),
        (["-o", "nowhere/model.py"], "cannot write nowhere/model.py: no such file or directory"),
        (["-o", "model.py", "--weights", "run"], "holds no weights: leave --weights out"),
        (["-o", "model.onnx", "--class", "Tiny"], "ONNX has no classes: leave --class out"),
        (["--class", "not a name"], "`not a name` cannot be the name of a class"),
        (["--class", "torch"], "`torch` is the name of something else in the file"),
        (["--class", "super"], "`super` is a name of Python itself"),
    ],
)
def test_what_cannot_be_written_leaves_nothing(tmp_path, monkeypatch, capsys, words, message):
    spec = Path("specs/related/ladder_tiny.yaml").resolve()
    monkeypatch.chdir(tmp_path)
    assert main(["export", str(spec), *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("ladderspec: ")
    assert message in error
    assert list(tmp_path.iterdir()) == []


OWN = """
from typing import ClassVar, Literal
from ladderspec.cells import EncoderCell, pre_activation, register, register_activation
from ladderspec.cells import register_norm, zeros, Norm
from ladderspec.cells.fields import NormChoice

SLOPE = 0.2


def bend(x):
    return x.clamp(min=0) + SLOPE * x.clamp(max=0)


@register_activation("bent")
def bent(x):
    return bend(x) - 0.5


@register_norm
class Rms(Norm):
    "RMS(x) = gain . x / sqrt(mean(x^2))"

    name = "rms"
    symbol = "RMS"

    @staticmethod
    def compute(x, gain, bias, groups):
        import torch

        size = x.square().mean(dim=tuple(range(1, x.dim())), keepdim=True)
        y = x * torch.rsqrt(size + 1e-5)
        wide = (-1, *(1 for _ in x.shape[2:]))
        y = y if gain is None else y * gain.view(wide)
        return y if bias is None else y + bias.view(wide)


@register
class Trace(EncoderCell):
    'A leaky trace of the pre-activation, a "memory"'

    cell: Literal["Trace"] = "Trace"
    channels: int
    rate: float = 0.5
    takes: ClassVar = EncoderCell.takes | {"state"}
    stateful: ClassVar = True
    offset: ClassVar = "bias"

    def out_shape(self, site):
        return (self.channels, *site.main().shape[1:])

    def project(self, site, inlet, out):
        return pre_activation(inlet, out, (3, 3), NormChoice(), "rms")

    def parameters(self, site, out):
        return {"bias": zeros(out[0])}

    @staticmethod
    def compute(a, h=None, *, rate):
        if h is None:
            return bend(a)
        return (1 - rate) * h + rate * bend(a)
"""


@pytest.fixture
def own_cells(cells_of_the_module, tmp_path):
    before = dict(ACTIVATIONS), dict(NORMS)
    (tmp_path / "own_cells.py").write_text(OWN)
    load_plugin(tmp_path / "own_cells.py")
    yield
    for table, kept in zip((ACTIVATIONS, NORMS), before, strict=True):
        table.clear()
        table.update(kept)


def test_cells_norms_and_activations_of_your_own_are_exported(own_cells):
    levels = """
levels:
  - {name: a, encoder: {cell: Trace, channels: 3}, decoder: {cell: convG3, norm: rms}}
  - {name: b, encoder: {cell: Conv, channels: 2, norm: rms, activation: bent}}
"""
    spec = loads(HEAD + levels)
    check_equal(spec)
    code = to_python(spec)
    assert "SLOPE = 0.2" in code
    assert 'class Trace(Cell):\n    """A leaky trace of the pre-activation, a \'memory\'' in code
    assert "def rms_norm(" in code


def test_a_norm_may_inherit_its_computation(own_cells):
    @register_norm
    class Softer(NORMS["rms"]):
        name = "softer"

    levels = "levels: [{name: a, encoder: {cell: Conv, channels: 2, norm: softer}}]"
    check_equal(loads(HEAD + levels))


@pytest.mark.parametrize(
    "made",
    [
        "zeros(7, out[0])",
        "zeros(7, out[0]).as_buffer()",
        "blocks(4, out[0], values=(1, 2)).as_buffer()",
    ],
)
def test_parameters_and_buffers_may_have_any_name_and_size(own_cells, tmp_path, made):
    text = OWN.replace('"bias": zeros(out[0])', f'"bias": zeros(out[0]), "w": {made}')
    text = text.replace("zeros, Norm", "blocks, zeros, Norm")
    text = text.replace("h=None, *, rate", "h=None, *, rate, w").replace("bend(a)", "(a + w.sum())")
    (tmp_path / "sizes.py").write_text(text)
    load_plugin(tmp_path / "sizes.py")
    rows = ", ".join(
        f"{{name: {a}, encoder: {{cell: Trace, channels: {n}}}}}" for a, n in ("a3", "b4")
    )
    spec = loads(f"{HEAD}levels: [{rows}]")
    check_equal(spec)
    ours, theirs = exported(spec).state_dict(), build(spec).state_dict()
    for name in ("encoder.a.w", "encoder.b.w"):
        assert torch.equal(ours[name], theirs[name])


def test_states_may_have_an_underscore_in_their_name(own_cells, tmp_path):
    text = OWN.replace("    stateful:", '    returns: ClassVar = ("old_trace",)\n    stateful:')
    text = text.replace("h=None", "old_trace=None").replace("if h is", "if old_trace is")
    text = text.replace("return bend(a)", "return bend(a), bend(a)")
    text = text.replace("return (1 - rate) * h + rate * bend(a)", "return a + old_trace, rate * a")
    text += "\n    def state_shapes(self, out):\n        return {'old_trace': out}\n"
    (tmp_path / "state.py").write_text(text)
    load_plugin(tmp_path / "state.py")
    cell = "{cell: Trace, channels: 3, initial: learned}"
    check_equal(loads(f"{HEAD}levels: [{{name: a, encoder: {cell}}}]"))


TAPPED = "{from: encoder.a, to: encoder.a, delay: 2, tap: normalised}"


@pytest.mark.parametrize("gain", ["", ', "gain": ones(out[0])'])
def test_cells_may_apply_the_norm_of_their_sum_themselves(own_cells, tmp_path, gain):
    text = OWN.replace('"bias": zeros(out[0])', f'"bias": ones(out[0]){gain}')
    text = text.replace("zeros, Norm", "ones, Norm").replace('"rms")', '"none")')
    text = text.replace("h=None, *, rate", "h=None, *, rate, norm").replace("bend(a)", "norm(a)")
    text += '\n    def node_norm(self):\n        return "joint", "layer", 1\n'
    (tmp_path / "joint.py").write_text(text)
    load_plugin(tmp_path / "joint.py")
    row = "{name: a, encoder: {cell: Trace, channels: 3"
    check_equal(loads(f"{HEAD}levels: [{row}}}}}]"))
    if gain:  # then the normalised pre-activation can be seen
        noisy = f"{HEAD}levels: [{row}, noise: {{gaussian: 0.2}}}}}}]"
        check_equal(loads(f"{noisy}\nedges: {{add: [{TAPPED}]}}"))


def load_as_part_of_ladderspec(path: Path) -> None:
    """As `load_plugin`, but of a file of ladderspec, whose cells are written in place."""
    place = importlib.util.spec_from_file_location(f"ladderspec.cells.{path.stem}", path)
    assert place is not None
    assert place.loader is not None
    module = importlib.util.module_from_spec(place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, module.__name__, module)
        place.loader.exec_module(module)


@pytest.mark.parametrize(
    ("body", "written"),
    [
        ("rate = rate / 2\n        return rate * a", ["rate = 0.5", "rate = rate / 2"]),
        ("if rate:\n            a = a * rate\n        return a", ["        a = a * 0.5\n"]),
        ("return a if rate > 1 or h is None else -a", ["        return -a\n"]),
        ("if rate > 1: return -a\n        return a", ["        return self.total(t, values"]),
        ("if rate < 1: return -a\n        return a", ["        return -a\n"]),
        (
            "if rate > 1:\n            return a\n        elif rate > 0:\n            a = 2 * a\n"
            "        return a",
            ["        a = 2 * a\n        return a\n"],
        ),
        (
            "if a.dim() > 9:\n            return a\n        elif rate > 0:\n            a = 2 * a\n"
            "        return a",
            ["        elif 0.5 > 0:\n            a = 2 * a\n        return a\n"],
        ),
        ("y = 3 * activation(a - 1).abs()\n        return y", ["3 * bent(a - 1).abs()"]),
        ('return activation(a - 1) + edges["encoder"]', ["(a - 1).relu()", "self.total(t, {key"]),
    ],
)
def test_arguments_are_filled_in(own_cells, tmp_path, body, written):
    start, _, _ = OWN.partition("        if h is None:\n")
    text = start.replace("h=None, *, rate", "h=None, *, rate, activation") + f"        {body}\n"
    if "edges" in body:
        text = text.replace("compute(a, h=None", "compute(edges, h=None")
        text = text.replace('"bias": zeros(out[0])', "").replace('offset: ClassVar = "bias"', "")
        text = text.replace(f"        {body}", f"        a = sum(edges.values())\n        {body}")
    name = "bent" if "abs" in body else "relu"
    text = text.replace("rate: float = 0.5", f'rate: float = 0.5\n    activation: str = "{name}"')
    (tmp_path / "body.py").write_text(text.replace("Trace", "BuiltIn"))
    load_as_part_of_ladderspec(tmp_path / "body.py")
    spec = loads(HEAD + "levels: [{name: a, encoder: {cell: BuiltIn, channels: 3}}]")
    check_equal(spec)
    for line in written:
        assert line in to_python(spec)


def test_no_condition_is_left_that_a_constant_decides():
    rows = "".join(
        f"  - {{name: r{n}, encoder: {{cell: Sum, crelu: {c}, activation: {a}}}}}\n"
        for n, (c, a) in enumerate([("true", "none"), ("false", "tanh"), ("false", "none")])
    )
    spec = loads(f"{HEAD}levels:\n{rows}  - {{name: top, encoder: {{cell: FC, channels: 2}}}}")
    check_equal(spec)
    assert not re.search(r"if (not )?(True|False|None|\d|\")", to_python(spec))


@pytest.mark.parametrize(
    ("norm", "formula"),
    [
        ("layer", "u = relu(LN(A * v_top) + LN(B * h) + c)"),
        ("joint", "u = relu(LN(A * v_top + B * h) + c)"),
        ("batch", "u = relu(BN(A * v_top) + BN(B * h) + c)"),
        ("none", "u = relu(A * v_top + B * h + c)"),
    ],
)
def test_docstrings_name_the_norm(norm, formula):
    decoder = f"{{cell: convG3, norm: {norm}}}"
    row = f"{{name: a, encoder: {{cell: Conv, channels: 3}}, decoder: {decoder}}}"
    assert f"    {formula}\n" in to_python(loads(f"{HEAD}levels: [{row}]"))


def test_two_functions_of_one_name_are_refused(own_cells, tmp_path):
    text = OWN.replace("Trace", "Track").replace('"rms"', '"rms2"').replace('"bent"', '"bent2"')
    (tmp_path / "second.py").write_text(text)
    load_plugin(tmp_path / "second.py")
    rows = ", ".join(
        f"{{name: {c.lower()}, encoder: {{cell: {c}, channels: 3}}}}" for c in ("Trace", "Track")
    )
    with pytest.raises(UsageError, match="the cell `Track`: another `bend` is in the file"):
        to_python(loads(f"{HEAD}levels: [{rows}]"))


def test_what_cannot_be_exported_is_refused_by_name(own_cells, tmp_path):
    text = OWN.replace("rate * bend(a)", "rate * bend(a) * Trace.offset.count('b')")
    (tmp_path / "other.py").write_text(text)
    load_plugin(tmp_path / "other.py")
    spec = loads(HEAD + "levels: [{name: a, encoder: {cell: Trace, channels: 3}}]")
    message = "cannot export the cell `Trace`: `Trace.compute` uses `Trace`, which is neither"
    with pytest.raises(UsageError, match=re.escape(message)):
        to_python(spec)


@pytest.mark.parametrize(
    ("code", "imported"),
    [
        ("import numpy as np", "numpy"),
        ("from numpy.linalg import norm", "numpy.linalg"),
        ("import ladderspec", "ladderspec"),
    ],
)
@pytest.mark.parametrize("place", ["    def compute(a, h=None, *, rate):", "def bend(x):"])
def test_a_source_that_imports_more_than_torch_is_refused(
    own_cells, tmp_path, code, imported, place
):
    indent = " " * (8 if place.startswith(" ") else 4)
    (tmp_path / "arrays.py").write_text(OWN.replace(place, f"{place}\n{indent}{code}"))
    load_plugin(tmp_path / "arrays.py")
    spec = loads(HEAD + "levels: [{name: a, encoder: {cell: Trace, channels: 3}}]")
    message = f"cannot export the cell `Trace`: its source imports `{imported}`, but an exported"
    with pytest.raises(UsageError, match=re.escape(message)):
        to_python(spec)


BEND = "    return x.clamp(min=0)"


@pytest.mark.parametrize(
    ("top", "body", "line"),
    [
        ("", "    import math\n\n    return math.e * x", "import math"),
        ("import math", "    return math.e * x", "import math"),
        ("", "    import torch.nn.functional\n\n    return torch.nn.functional.elu(x)", ""),
        (
            "import torch.nn.functional as F",
            "    return F.elu(x)",
            "\nfrom torch.nn import functional as F\n",
        ),
        (
            "",
            "    import torch.nn.functional as F\n\n    return F.elu(x)",
            "    import torch.nn.functional as F\n",
        ),
        (
            "",
            "    from torch import relu as r\n\n    return r(x)",
            "    from torch import relu as r\n",
        ),
    ],
)
def test_a_source_may_import_torch_and_the_standard_library(own_cells, tmp_path, top, body, line):
    (tmp_path / "standard.py").write_text(f"{top}\n{OWN.replace(BEND, body)}")
    load_plugin(tmp_path / "standard.py")
    spec = loads(HEAD + "levels: [{name: a, encoder: {cell: Trace, channels: 3}}]")
    check_equal(spec)
    assert line in to_python(spec)


def test_a_module_at_the_top_of_a_file_is_refused_like_one_inside(own_cells, tmp_path):
    text = OWN.replace(BEND, "    return np.sqrt(2) * x")
    (tmp_path / "arrays.py").write_text(f"import numpy as np\n{text}")
    load_plugin(tmp_path / "arrays.py")
    spec = loads(HEAD + "levels: [{name: a, encoder: {cell: Trace, channels: 3}}]")
    with pytest.raises(
        UsageError, match="the cell `Trace`: its source imports `numpy`, but an exp"
    ):
        to_python(spec)


def test_imports_inside_a_function_are_its_own(own_cells, tmp_path):
    text = OWN.replace(BEND, "    import math as functional\n\n    return functional.e * x")
    (tmp_path / "alias.py").write_text(text)
    load_plugin(tmp_path / "alias.py")
    check_equal(loads(HEAD + "levels: [{name: a, encoder: {cell: Trace, channels: 3}}]"))


def test_two_imports_under_one_name_are_refused(own_cells, tmp_path):
    text = "import math as functional\n" + OWN.replace(BEND, "    return functional.e * x")
    (tmp_path / "alias.py").write_text(text)
    load_plugin(tmp_path / "alias.py")
    spec = loads(HEAD + "levels: [{name: a, encoder: {cell: Trace, channels: 3}}]")
    with pytest.raises(UsageError, match="the cell `Trace`: another `functional` is in the file"):
        to_python(spec)


def test_the_command_does_not_wait_for_torch():
    lines = [*CALL.splitlines(), 'assert "torch" not in sys.modules']
    words = [sys.executable, "-c", "\n".join(lines), "specs/ommnist/rladder.yaml"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


CALL = """
import argparse, sys
from ladderspec.cli import fill
from ladderspec.errors import UsageError

args = fill(argparse.ArgumentParser(), "export").parse_args(sys.argv[1:])
try:
    args.run(args)
except UsageError as error:
    print(error)
"""
