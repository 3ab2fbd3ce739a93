"""A run that is stopped, damaged or starved goes on and ends as if nothing had happened: same bits, same metrics."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys

import pytest
from prefect import flow
from prefect.testing.utilities import prefect_test_harness

from sara.checkpoints import CheckpointStore
from sara.config import RunConfig
from sara.engines.huggingface import HuggingFaceEngine
from sara.engines.supervised import EngineFailure
from sara.failures import RunFailure
from sara.learner import Learner
from sara.rollouts import RolloutSampler
from sara.training import Trainer
from tasks.outbox import Outbox
from tasks.prepare import PreparedData, prepare_data
from tasks.resuming import keep_config, settings_to_resume
from tasks.run_folder import FolderInUse, claim_folder, newest_folder
from tasks.stopping import Stopped
from tasks.tracking import connect, is_recorded
from tasks.train import TrainedRun, train
from tests.tasks.small_runs import STEPS, make_config, outcome, strike


@pytest.fixture
def config(tmp_path) -> RunConfig:
    return make_config(tmp_path)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> PreparedData:
    folder = tmp_path_factory.mktemp("data")
    return prepare_data.fn(make_config(folder), folder / "data")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, data) -> dict:
    return outcome(train.fn(make_config(tmp_path_factory.mktemp("undisturbed")), data))


def sigterm() -> None:
    signal.raise_signal(signal.SIGTERM)


@pytest.mark.parametrize(
    ("owner", "name", "nth", "saved"),
    [
        (RolloutSampler, "_score", 3, 0),  # in the first round of all
        (HuggingFaceEngine, "generate", 5, None),  # in some round
        (Learner, "update", 3, 3),  # in an update, which is finished first
        (CheckpointStore, "save", 2, 2),  # in a save, which is finished first
        (RolloutSampler, "take", STEPS * 10, STEPS),  # never: the run ends by itself
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_run_that_is_told_to_stop_goes_on_bit_for_bit(
    config, data, undisturbed, monkeypatch, owner, name, nth, saved
):
    with monkeypatch.context() as patched:
        strike(patched, owner, name, nth, sigterm)
        if saved == STEPS:
            train.fn(config, data)
        else:
            with pytest.raises(Stopped, match=r"stopped by SIGTERM; .* saved"):
                train.fn(config, data)
            assert Outbox(config.output_dir / "run").last_status() == "KILLED"
    steps = CheckpointStore(config.output_dir / "run" / "checkpoints").steps()
    assert saved is None or (steps[-1] if steps else 0) == saved
    trained = train.fn(config, data, resume=True)
    assert outcome(trained) == undisturbed
    assert trained.resumed_at == (steps[-1] if steps else 0)
    runs = connect(config.tracking.uri, "resume").client.search_runs(["1"])
    assert [run.info.status for run in runs] == ["FINISHED"]


def test_an_engine_that_failed_for_good_costs_the_step_under_way_and_no_other(config, data, undisturbed, monkeypatch):
    def fail():
        raise EngineFailure("the engine failed twice")

    every_fourth = config.model_copy(update={"checkpoint": config.checkpoint.model_copy(update={"every": STEPS})})
    with monkeypatch.context() as patched:
        strike(patched, RolloutSampler, "take", 3, fail)  # at the end of the third step's rounds, counting evaluations
        with pytest.raises(EngineFailure, match="failed twice"):
            train.fn(every_fourth, data)
    (saved,) = CheckpointStore(config.output_dir / "run" / "checkpoints").steps()
    assert 0 < saved < STEPS
    trained = train.fn(every_fourth, data, resume=True)
    assert (outcome(trained), trained.resumed_at) == (undisturbed, saved)


def test_a_finished_run_is_not_run_again(config, data, monkeypatch):
    first = train.fn(config, data)
    calls = strike(monkeypatch, HuggingFaceEngine, "generate", 10**9, sigterm)
    again = train.fn(config, data, resume=True)
    assert (again.resumed_at, again.steps, calls) == (STEPS, STEPS, [])
    assert again.model_dump(exclude={"resumed_at"}) == first.model_dump(exclude={"resumed_at"})


def test_more_steps_are_the_same_as_if_they_had_been_meant_from_the_start(config, data, undisturbed):
    fewer = config.model_copy(update={"training": config.training.model_copy(update={"steps": 2})})
    train.fn(fewer, data)
    with pytest.raises(ValueError, match=r"training\.steps was 2, now 4; .*--allow training\.steps"):
        train.fn(config, data, resume=True)
    trained = train.fn(config, data, resume=True, allow=["training.steps"])
    assert outcome(trained) == undisturbed
    with pytest.raises(ValueError, match=r"training\.steps = 2; the run has taken 4 steps already"):
        train.fn(fewer, data, resume=True, allow=["training"])


def test_settings_that_decide_no_number_may_change(config, data):
    train.fn(config, data)
    moved = config.model_copy(
        update={
            "checkpoint": config.checkpoint.model_copy(update={"every": 3, "keep_last": 1}),
            "tracking": config.tracking.model_copy(update={"wait_s": 1.0}),
        }
    )
    assert train.fn(moved, data, resume=True).resumed_at == STEPS


def test_damage_to_the_newest_checkpoint_costs_a_step_and_nothing_else(config, data, undisturbed, monkeypatch, caplog):
    with monkeypatch.context() as patched:
        strike(patched, Learner, "update", 3, sigterm)
        with pytest.raises(Stopped):
            train.fn(config, data)
    newest = config.output_dir / "run" / "checkpoints" / "step-00000003" / "state.safetensors"
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 4
    newest.write_bytes(content)
    trained = train.fn(config, data, resume=True)
    assert (trained.resumed_at, outcome(trained)) == (2, undisturbed)
    (line,) = [line for line in caplog.messages if "damaged" in line]
    assert "going on from that of step 2" in line and str(newest) in line


def test_a_full_disk_while_saving_is_said_and_training_goes_on(config, data, undisturbed, monkeypatch, caplog):
    save, limits = CheckpointStore.save, resource.getrlimit(resource.RLIMIT_FSIZE)

    def save_on_a_full_disk(self, checkpoint, complete):
        if checkpoint.step == 2:
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
        try:
            return save(self, checkpoint, complete)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    monkeypatch.setattr(CheckpointStore, "save", save_on_a_full_disk)
    trained = train.fn(config, data)
    assert outcome(trained) == undisturbed
    (line,) = [line for line in caplog.messages if "could not be saved" in line]
    assert "that of step 1 is intact; training goes on without it" in line and "\n" not in line


def test_a_full_disk_while_recording_ends_the_run_with_everything_before_it(config, data, undisturbed, monkeypatch):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill_the_disk():
        size = (config.output_dir / "run" / "metrics.jsonl").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, limits[1]))

    with monkeypatch.context() as patched:
        strike(patched, RolloutSampler, "take", 3, fill_the_disk)
        try:
            with pytest.raises(RunFailure, match=r"metrics\.jsonl: could not be written \(File too large\); what was"):
                train.fn(config, data)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert outcome(train.fn(config, data, resume=True)) == undisturbed


def test_a_full_disk_at_the_end_costs_no_step(config, data, undisturbed, monkeypatch):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill_the_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))

    with monkeypatch.context() as patched:
        strike(patched, Trainer, "save_model", 1, fill_the_disk)
        try:
            with pytest.raises(RunFailure, match=r"run: could not be written \(.*File too large.*\); what was"):
                train.fn(config, data)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not (config.output_dir / "run" / "model").exists()
    trained = train.fn(config, data, resume=True)
    assert (trained.resumed_at, outcome(trained)) == (STEPS, undisturbed)


def test_a_second_run_on_the_folder_is_refused(config, data):
    with claim_folder(config.output_dir / "run") as folder:
        (folder / "config.json").write_text(config.model_dump_json())
        with pytest.raises(FolderInUse, match="in use by another run"):
            train.fn(config, data, resume=True)
        code = "import sys; from pathlib import Path; from tasks.run_folder import claim_folder\n"
        code += "with claim_folder(Path(sys.argv[1]), goes_on=True): pass"
        other = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=False)
        assert "FolderInUse" in other.stderr


def test_other_problems_are_refused(config, data, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        strike(patched, Learner, "update", 2, sigterm)
        with pytest.raises(Stopped):
            train.fn(config, data)
    other = make_config(tmp_path, data=config.data.model_dump() | {"seed": 1})
    changed = prepare_data.fn(other, tmp_path / "other")
    with pytest.raises(ValueError, match=r"was made with problems .*; expected the same"):
        train.fn(config, changed, resume=True)


def test_a_task_that_failed_goes_on_by_itself_when_prefect_tries_it_again(config, data, undisturbed, monkeypatch):
    def die() -> None:
        raise RuntimeError("the engine died")

    strike(monkeypatch, HuggingFaceEngine, "generate", 6, die)

    @flow
    def train_once() -> TrainedRun:
        return train.with_options(retry_delay_seconds=0)(config, data)

    with prefect_test_harness(server_startup_timeout=120):
        trained = train_once()
    assert trained.resumed_at > 0
    assert outcome(trained) == undisturbed
    assert [path.name for path in config.output_dir.glob("run*")] == ["run"]


def test_a_command_that_goes_on_need_not_repeat_the_settings(tmp_path):
    started = make_config(tmp_path, seed=7, learner={"learning_rate": 0.5})
    (tmp_path / "run-2").mkdir()
    (tmp_path / "run").mkdir()
    keep_config(RunConfig(output_dir=tmp_path), tmp_path / "run")
    keep_config(started, tmp_path / "run-2")
    assert newest_folder(tmp_path / "run") == tmp_path / "run-2"
    assert settings_to_resume(RunConfig(output_dir=tmp_path)) == started
    same = RunConfig(output_dir=tmp_path, seed=7, learner={"learning_rate": 0.5}, data={"sizes": {2: 1, 3: 1}})
    assert settings_to_resume(same) == started
    with pytest.raises(ValueError, match=r"learner\.learning_rate was 0\.5, now 0\.25"):
        settings_to_resume(RunConfig(output_dir=tmp_path, learner={"learning_rate": 0.25}))
    changed = settings_to_resume(RunConfig(output_dir=tmp_path, learner={"learning_rate": 0.25}), ["learner"])
    assert changed.learner.learning_rate == 0.25 and changed.seed == 7
    with pytest.raises(ValueError, match="--allow lerner: no such setting"):
        settings_to_resume(RunConfig(output_dir=tmp_path), ["lerner"])
    with pytest.raises(ValueError, match="nothing: no run to go on with"):
        settings_to_resume(RunConfig(output_dir=tmp_path, name="nothing"))


def test_what_is_recorded_is_known_without_mlflow(config, data):
    trained = train.fn(config, data)
    assert is_recorded(trained.folder, "eval/accuracy", 2)
    assert not is_recorded(trained.folder, "eval/accuracy", STEPS)
