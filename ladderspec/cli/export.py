"""Write a network as plain PyTorch or as ONNX."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ladderspec.api import build, open_spec
from ladderspec.cli._common import (
    add_changes,
    add_spec,
    notes_to_stderr,
    open_graph,
    request,
    saved,
    say,
)
from ladderspec.errors import UsageError
from ladderspec.export import to_python
from ladderspec.files import write_atomic
from ladderspec.language.read import Spec
from ladderspec.wiring.graph import Graph


def add_export_arguments(parser: argparse.ArgumentParser) -> None:
    add_spec(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", default="-",
        help="FILE.py or FILE.onnx; default: -, which is PyTorch on standard output",
    )  # fmt: skip
    parser.add_argument(
        "--class", metavar="NAME", dest="name",
        help="of the network in PyTorch; default: from the spec's name",
    )  # fmt: skip
    parser.add_argument(
        "--weights", metavar="FOLDER", type=Path,
        help="for ONNX: the folder of a run, one of its checkpoints, or a saved network;"
        " default: initial values",
    )  # fmt: skip
    parser.add_argument(
        "--device", metavar="NAME",
        help="for ONNX: where the network is traced; default: cpu",
    )  # fmt: skip
    add_changes(parser)


def run_export(args: argparse.Namespace) -> int:
    """Write a network for use without ladderspec; the suffix of the file selects the format.

      .py    one file of plain, readable PyTorch, which loads the same weights
      .onnx  one iteration with its weights, for streaming: feed every output
             next.NAME back in as carry.NAME, first as zeros or as the values
             in the file's metadata `initial`; needs `ladderspec[export]`

    Example:
      ladderspec export ladderspec:ommnist/rladder -o model.py
      ladderspec export mine.yaml --without lateral --class Mine
      ladderspec export mine.yaml --weights out/run -o model.onnx
      ladderspec export out/run -o model.onnx
    """
    kind = ".py" if args.output == "-" else Path(args.output).suffix
    if kind not in (".py", ".onnx"):
        raise UsageError(f"`{args.output}` names no format: .py is PyTorch, .onnx one iteration")
    folder = saved(args.spec)
    what = open_graph(args) if folder else open_spec(args.spec, request(args), args.root)
    if kind == ".onnx":
        args.weights = args.weights or folder
        return _write_onnx(what, args)
    if args.weights is not None:
        raise UsageError("a file of PyTorch holds no weights: leave --weights out")
    if args.device is not None:
        raise UsageError("a file of PyTorch runs on every device: leave --device out")
    text = to_python(what, args.name)
    if args.output == "-":
        sys.stdout.write(text)
        return 0
    say(f"wrote {write_atomic(args.output, text)}")
    return 0


def _write_onnx(what: Spec | Graph, args: argparse.Namespace) -> int:
    if args.name is not None:
        raise UsageError("ONNX has no classes: leave --class out")
    net = build(what)
    from ladderspec.export.onnx import to_onnx

    if args.weights is not None:
        from ladderspec.trained.run import take_weights

        notes_to_stderr(take_weights(net, args.weights))
    if args.device is not None:
        from ladderspec.learn.processes import device_of

        net.to(device_of(args.device))
    place = write_atomic(args.output, to_onnx(net))
    say(f"wrote {place}" + ("" if args.weights else " with initial values, not yet trained"))
    return 0
