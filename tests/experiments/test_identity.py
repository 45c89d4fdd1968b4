"""The identity of a run survives the growth of the library, and shows every change of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, create_model

from ladderspec.cells import register
from ladderspec.cells import registered as registered_cells
from ladderspec.data import registered as registered_data
from ladderspec.errors import UsageError
from ladderspec.experiments.identity import RECORDED, digest, fields
from ladderspec.experiments.reader import open_experiment
from ladderspec.experiments.runs import Run
from ladderspec.experiments.training import EvaluationConfig, TrainingConfig
from ladderspec.learn.run_folder import check, read_result
from ladderspec.names import Side
from ladderspec.tasks import Classification, Consistency, Denoising, Prediction, Probe
from tests.training import EXPERIMENT, SPEC, experiment

pytestmark = pytest.mark.usefixtures("cells_of_the_module")
TASKS = (Classification, Prediction, Denoising, Consistency, Probe)
CONFIGS: dict[str, type[BaseModel]] = {
    **{name: cell for side in Side for name, cell in registered_cells(side).items()},
    **{str(task.model_fields["kind"].annotation.__args__[0]): task for task in TASKS},  # type: ignore[union-attr]
    **registered_data(),
    "training": TrainingConfig,
    "evaluation": EvaluationConfig,
}
REQUIRED: dict[str, Any] = {
    "channels": 3, "size": (4, 4), "at": "encoder.class", "target": "clean",
    "filter": (3, 3), "mode": "max", "path": "arrays", "name": "Nottingham",
}  # fmt: skip


def least(model: type[BaseModel], name: str, **more: Any) -> BaseModel:
    """A config with nothing but what it needs."""
    fields = model.model_fields.items()
    needed = [k for k, field in fields if field.is_required() or k in ("channels", "name")]
    words = {key: REQUIRED.get(key, name) for key in needed}
    return model.model_validate(words | more)


def run_of(folder: Path, text: str = EXPERIMENT, spec: str = SPEC) -> Run:
    return open_experiment(experiment(folder, text, spec)).runs[0]


# --- any config -----------------------------------------------------------------------------------


def test_every_recorded_config_is_known() -> None:
    assert RECORDED.keys() - {"Input"} <= CONFIGS.keys()


@pytest.mark.parametrize("name", CONFIGS)
def test_a_new_optional_field_counts_only_if_it_is_set(name: str) -> None:
    grown = create_model("Grown", __base__=CONFIGS[name], later=(int, 3))
    before = fields(least(CONFIGS[name], name), name)
    if name not in RECORDED:  # newer than that table: nothing is recorded at its default
        assert set(before) <= {k for k, f in CONFIGS[name].model_fields.items() if f.is_required()}
    assert fields(least(grown, name), name) == before
    assert fields(least(grown, name, later=3), name) == before
    assert fields(least(grown, name, later=4), name) == {**before, "later": 4}


def test_the_table_of_recorded_fields_never_grows() -> None:
    cells = "Average Conv ConvGRU ConvLSTM FC G1 GRU Identity Input LSTM Pool SoftMax"
    gates = "convG1 convG2 convG3"
    tasks = "classification consistency denoising prediction probe"
    others = "arrays digits evaluation music occluded_mnist training"
    assert sorted(RECORDED) == sorted(f"{cells} {gates} {tasks} {others}".split())
    assert sum(map(len, RECORDED.values())) == 237


@pytest.mark.parametrize("name", CONFIGS)
def test_a_revision_counts_if_it_is_not_the_first(name: str, monkeypatch: Any) -> None:
    before = fields(least(CONFIGS[name], name), name)
    monkeypatch.setattr(CONFIGS[name], "revision", 2, raising=False)
    assert fields(least(CONFIGS[name], name), name) == {**before, "revision": 2}


def test_new_fields_deep_inside_count_only_if_they_are_set() -> None:
    adam = type(TrainingConfig().optimiser)
    grown = create_model("Grown", __base__=adam, decay=(float, 0.0))
    for decay in (0.0, 0.1):
        training = TrainingConfig().model_copy(update={"optimiser": grown(decay=decay)})
        found, before = (fields(t, "training")["optimiser"] for t in (training, TrainingConfig()))
        assert found == ({**before, "decay": decay} if decay else before)


# --- runs -----------------------------------------------------------------------------------------

TOY = SPEC.replace("{cell: LSTM, channels: 8}", "{cell: Toy, channels: 8}")


def toy(**added: Any) -> type[BaseModel]:
    """Register a cell of a user, `Toy`, with some fields of its own."""
    dense = registered_cells(Side.ENCODER)["FC"]
    return register(create_model("Toy", __base__=dense, cell=(Literal["Toy"], "Toy"), **added))


def test_a_cell_of_a_user_may_grow(tmp_path: Path) -> None:
    toy()
    before = run_of(tmp_path, spec=TOY).digest
    toy(depth=(int, 1))
    assert run_of(tmp_path, spec=TOY).digest == before
    deep = TOY.replace("Toy,", "Toy, depth: 2,")
    assert run_of(tmp_path, spec=deep).digest != before


def test_a_changed_default_of_a_cell_shows_through_its_revision(tmp_path: Path) -> None:
    toy(depth=(int, 1))
    before = run_of(tmp_path, spec=TOY).digest
    changed = toy(depth=(int, 2))
    assert run_of(tmp_path, spec=TOY).digest == before  # which is why there is a revision
    changed.revision = 2  # type: ignore[attr-defined]
    assert run_of(tmp_path, spec=TOY).digest != before


def test_a_changed_task_or_data_set_shows_through_its_revision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(tmp_path)
    before = run.digest
    for changed in (Prediction, type(run.data)):
        with monkeypatch.context() as patch:
            patch.setattr(changed, "revision", 2, raising=False)
            assert run_of(tmp_path).digest != before
    monkeypatch.setattr(Probe, "revision", 2)  # of which the network has none
    assert run_of(tmp_path).digest == before


def test_all_sections_may_grow(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    for name in ("data", "training", "evaluation"):
        config = getattr(run, name)
        grown = create_model("Grown", __base__=type(config), later=(int, 3))
        for later in (3, 4):
            changed = replace(run, **{name: grown.model_validate({**dict(config), "later": later})})
            assert (changed.digest == run.digest) == (later == 3), name


# --- recorded runs --------------------------------------------------------------------------------


def record(folder: Path, identity: dict[str, Any]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "run.json").write_text(json.dumps({"title": "any", **identity}))
    result = {"digest": digest(identity), "updates": 1, "metrics": {}, "units": {}, "parameters": 1}
    (folder / "result.json").write_text(json.dumps(result))


def test_a_run_that_was_recorded_with_all_fields_of_a_users_cell_is_recognised(
    tmp_path: Path,
) -> None:
    toy(depth=(int, 1))
    run = run_of(tmp_path, spec=TOY)
    before = json.loads(json.dumps(run.identity))
    (top,) = [node for node in before["graph"]["nodes"] if node["id"] == "encoder.top"]
    assert top["cell"] == {"cell": "Toy", "channels": 8}
    top["cell"] |= {
        "initial": "zeros",
        "norm": {"terms": "separate"},
        "activation": "relu",
        "depth": 1,
    }
    assert digest(before) != run.digest
    record(tmp_path / "run", before)
    assert read_result(tmp_path / "run", run) is not None
    check(tmp_path / "run", run, resume=True)
    top["cell"]["depth"] = 2
    record(tmp_path / "run", before)
    assert read_result(tmp_path / "run", run) is None


def test_another_revision_is_said_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path / "run", run_of(tmp_path).identity)
    monkeypatch.setattr(Classification, "revision", 2)
    with pytest.raises(UsageError) as error:
        check(tmp_path / "run", run_of(tmp_path), resume=True)
    difference = "graph.graph.tasks.digit.revision is 1, not 2"
    assert str(error.value) == f"{tmp_path / 'run'} holds another run: {difference}"


FEEDBACK = "edges: {decoder_to_encoder: {levels: [%s]%s}}\n"


@pytest.mark.parametrize(
    ("level", "gain", "cell", "gains"),
    [
        ("conv2", "", "", {"encoder.conv2": 1 / 64}),  # 1 in early runs
        ("lstm1", "", "", {}),  # as ever
        ("conv2", ", gain: 1", "", {}),
        ("conv2", "", ", norm: none", {}),
    ],
)
def test_initial_gains_count_if_they_are_not_those_of_early_runs(
    tmp_path: Path, level: str, gain: str, cell: str, gains: dict[str, float]
) -> None:
    spec = SPEC.replace("tasks:\n", FEEDBACK % (level, gain) + "tasks:\n", 1)
    spec = spec.replace("Conv, channels: 4", f"Conv, channels: 4{cell}")
    edges = run_of(tmp_path, spec=spec).identity["graph"]["edges"]
    assert {e["target"]: e["initial_gain"] for e in edges if "initial_gain" in e} == gains
    into = {e["target"] for e in edges if e["role"] == "decoder_to_encoder"}
    assert into == {f"encoder.{level}"}
