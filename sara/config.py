"""The configuration of an experiment: what may be set, its defaults and its limits.

Owns the fields, their meaning and the checks between them. Reading files and overrides is
`sara.config_file`'s; nothing here reads the environment.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveFloat,
    PositiveInt,
    WithJsonSchema,
    model_validator,
)

from sara.advantages import ADVANTAGES, get_estimator
from sara.datasets import DATASETS, get_dataset
from sara.strategies import STRATEGIES, get_strategy

Share = Annotated[float, Field(gt=0, lt=1)]
NonNegativeFloat = Annotated[float, Field(ge=0)]
NonNegativeInt = Annotated[int, Field(ge=0)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]


def _is_strategy(name: str) -> str:
    get_strategy(name)
    return name


def _is_algorithm(name: str) -> str:
    get_estimator(name)
    return name


def _is_dataset(name: str) -> str:
    get_dataset(name)
    return name


def _one_or_more(value: Any) -> Any:
    """A single strategy, algorithm or seed stands for a list of one."""
    return (value,) if isinstance(value, (str, int)) else value


def _are_distinct(values: tuple) -> tuple:
    if len(set(values)) < len(values):
        raise ValueError("expected each at most once")
    return values


def _is_range(pair: tuple[int, int]) -> tuple[int, int]:
    if pair[0] > pair[1]:
        raise ValueError("expected [smallest, largest]")
    return pair


def _as_threshold(value: Any) -> Any:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if value != AUTO and not (is_number and 0 < value < 1):
        raise ValueError("expected a number in (0, 1), or 'auto'")
    return value


def _as_pace(value: Any) -> Any:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if value != AUTO and not is_count:
        raise ValueError("expected an integer of at least 1, or 'auto'")
    return value


AUTO = "auto"
GENERATED_SIZE = 512
Threshold = Annotated[float | Literal["auto"], BeforeValidator(_as_threshold)]
Pace = Annotated[int | Literal["auto"], BeforeValidator(_as_pace)]
Schedule = Literal["rounds", "stream"]
ClosedShare = Annotated[float, Field(ge=0, le=1)]
StrategyName = Annotated[
    str, AfterValidator(_is_strategy), WithJsonSchema({"type": "string", "enum": list(STRATEGIES)})
]
AlgorithmName = Annotated[
    str, AfterValidator(_is_algorithm), WithJsonSchema({"type": "string", "enum": list(ADVANTAGES)})
]
DatasetName = Annotated[str, AfterValidator(_is_dataset)]
IntegerRange = Annotated[tuple[NonNegativeInt, NonNegativeInt], AfterValidator(_is_range)]


class Section(BaseModel):
    """A part of the configuration: unknown keys are refused, values never change after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ModelConfig(Section):
    """The language model that is trained."""

    path: str = Field("builtin", description="'builtin', a local folder, or a name on the Hugging Face hub")
    dtype: Literal["float32", "bfloat16"] = Field("float32", description="Type of the weights")
    device: str = Field("auto", description="'auto' (a GPU if there is one), 'cpu', 'cuda', 'cuda:1', ...")


class DataConfig(Section):
    """The problems to train on and those to be evaluated on.

    A set is made by code (`arithmetic`, `countdown`), read from a file where one is named, or read from the hub.
    """

    train: DatasetName = Field("countdown", description=f"Data set of the training prompts: {', '.join(DATASETS)}")
    heldout: DatasetName = Field("countdown", description="Data set of the held-out prompts, of the same ones")
    train_path: Path | None = Field(None, description="JSONL or Parquet file to read the training problems from")
    heldout_path: Path | None = Field(None, description="JSONL or Parquet file to read the held-out problems from")
    train_columns: dict[str, str] = Field({}, description="Fields whose column in train_path is called otherwise")
    heldout_columns: dict[str, str] = Field({}, description="Fields whose column in heldout_path is called otherwise")
    train_revision: str | None = Field(None, description="Commit of a public training set, in place of the pinned one")
    heldout_revision: str | None = Field(None, description="Commit of a public held-out set, likewise")
    train_size: PositiveInt | None = Field(
        None, description=f"Training problems: how many to make ({GENERATED_SIZE} if not set), or to use at most"
    )
    heldout_size: PositiveInt | None = Field(None, description="Held-out problems, likewise")
    apart_from: dict[DatasetName, str] = Field(
        {},
        description="Sets besides the held-out one that no training problem may stand in: name -> file, or 'hub'",
    )
    seed: Seed = Field(0, description="Seed of the problems that are made or chosen, apart from the seeds of training")
    sizes: dict[Annotated[int, Field(ge=2, le=8)], PositiveFloat] = Field(
        {2: 0.1, 3: 0.2, 5: 0.7},
        min_length=1,
        description="Countdown: how many numbers -> weight in the pool",
    )
    number_range: IntegerRange = Field((1, 13), description="Countdown: smallest and largest number")
    target_range: IntegerRange = Field((1, 99), description="Countdown: smallest and largest target")
    max_intermediate: PositiveInt = Field(99, description="Countdown: largest value inside the known solution")
    subjects: Annotated[tuple[str, ...], BeforeValidator(_one_or_more)] = Field(
        (), description="Arithmetic: subjects; all of them if not set"
    )
    levels: IntegerRange = Field((1, 5), description="Arithmetic: easiest and hardest level")

    def generated_size(self, split: Literal["train", "heldout"]) -> int:
        """How many problems a set that is made by code makes for one side."""
        return (self.train_size if split == "train" else self.heldout_size) or GENERATED_SIZE

    def is_generated(self, split: Literal["train", "heldout"]) -> bool:
        """Whether the problems of one side are made by code."""
        name, path = (self.train, self.train_path) if split == "train" else (self.heldout, self.heldout_path)
        return path is None and DATASETS[name].generate is not None


class PromptConfig(Section):
    """How a problem is put to the model."""

    style: Literal["auto", "chat", "plain", "base"] = Field(
        "auto",
        description="'chat': the model's chat template; 'plain': the text alone; 'base': a conversation with <think> "
        "and <answer> for a base model; 'auto': 'chat' where the model has a template, else 'plain'",
    )
    instruction: str | None = Field(
        None, description="Said after each problem, in place of the data set's own instruction; '' says none"
    )
    system: str | None = Field(None, description="System message of the chat template")
    max_tokens: PositiveInt | None = Field(None, description="Training problems with a longer prompt are left out")


class SelectionConfig(Section):
    """Which prompts a step opens (DESIGN: selectors)."""

    candidate_ratio: PositiveInt = Field(16, description="DPS: candidates in a step, in multiples of groups_per_step")
    decay: Annotated[float, Field(gt=0, le=1)] = Field(0.5, description="DPS: how much of the old counts is kept")


class AllocationConfig(Section):
    """How many rollouts each opened prompt gets (DESIGN: allocators)."""

    k: Annotated[int, Field(ge=2, le=1024)] = Field(8, description="Group size")
    groups_per_step: PositiveInt = Field(16, description="B: groups that a training batch wants")
    tau_low: Threshold = Field(
        0.5, description="SARA abandons a prompt whose chance to become effective is below; 'auto': where it pays most"
    )
    probe: Pace = Field(4, description="SARA: rollouts in a prompt's first round, or 'auto': up to where it may stop")
    increment: Pace = Field(4, description="SARA: rollouts in a prompt's later rounds, or 'auto' likewise")
    max_false_abandon: ClosedShare = Field(
        0.25, description="SARA with tau_low = 'auto': most of the effective groups that abandoning may lose, a share"
    )
    value: Literal["groups", "signal"] = Field(
        "groups", description="SARA, 'auto': what pays, effective groups or the gradient's signal in them"
    )
    cost: Literal["rollouts", "tokens"] = Field("rollouts", description="SARA, 'auto': what is paid")
    audit_rate: ClosedShare = Field(
        0.01, description="SARA: share of the abandoned prompts that is run on to k, to see how often that was wrong"
    )
    alpha0: PositiveFloat = Field(1.0, description="SARA: prior Beta(alpha0, beta0) over a prompt's success rate")
    beta0: PositiveFloat = Field(1.0, description="SARA: prior Beta(alpha0, beta0) over a prompt's success rate")
    on_commit: Literal["fill", "stop"] = Field(
        "fill", description="Draw a committed group up to k, or train on it as is"
    )
    budget: PositiveInt | None = Field(
        None, description="Hard cap on a step's rollouts; if not set, what max_gen_batches full chunks cost"
    )
    schedule: Schedule = Field(
        "rounds", description="Decide when all rollouts of a round have ended, or whenever one has (docs/streaming.md)"
    )
    max_rounds: PositiveInt = Field(20, description="Rounds after which a step ends with what it has")
    max_gen_batches: PositiveInt = Field(20, description="DS: chunks of groups_per_step prompts in a step at most")
    max_redraws: NonNegativeInt = Field(2, description="How often a rollout that could not be scored is drawn again")

    @property
    def rollout_cap(self) -> int:
        """Most rollouts that a step may draw, whatever the strategy: without it a saturated pool costs without end."""
        return self.budget or self.max_gen_batches * self.groups_per_step * self.k

    @model_validator(mode="after")
    def _pace_fits(self):
        if self.probe != AUTO and self.probe > self.k:
            raise ValueError(f"allocation.probe = {self.probe}; expected at most k = {self.k}")
        if self.budget is not None and self.budget < self.k:
            raise ValueError(f"allocation.budget = {self.budget}; expected at least k = {self.k}, what a group costs")
        return self


class EngineConfig(Section):
    """How completions are sampled. The fields after max_sequences are vLLM's."""

    name: Literal["auto", "hf", "vllm"] = Field(
        "auto", description="Engine; 'auto': vLLM where it is installed and faster (docs/engines.md), else Hugging Face"
    )
    temperature: PositiveFloat = Field(1.0, description="Sampling temperature of training, and of evaluation too")
    max_new_tokens: PositiveInt = Field(192, description="Longest completion in tokens, in evaluation too")
    max_sequences: PositiveInt = Field(512, description="Completions that are decoded together at most")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field("auto", description="'auto': the model's")
    max_model_len: PositiveInt | None = Field(
        None, description="Longest prompt with its completion in tokens; if not set, the model's context"
    )
    memory_share: Annotated[float, Field(gt=0, le=1)] = Field(
        0.5, description="Share of a GPU's memory for weights and cache; the learner needs the rest"
    )
    cache_gib: PositiveFloat | None = Field(
        None, description="Size of the key-value cache in GiB; if not set, by memory_share on a GPU and 1 on the CPU"
    )
    tensor_parallel_size: PositiveInt = Field(1, description="GPUs that one copy of the model is spread over")
    sleep_level: Annotated[int, Field(ge=0, le=2)] = Field(
        0,
        description="What a GPU engine gives up during the update: 0 nothing, 1 cache, and weights to the CPU, 2 both",
    )
    is_eager: bool = Field(False, description="No compilation and no CUDA graphs: a faster start, slower decoding")
    timeout_s: PositiveFloat = Field(
        300.0, description="Seconds without an answer after which an engine counts as hung"
    )
    start_timeout_s: PositiveFloat = Field(1200.0, description="Seconds that a fresh engine may take to start")


class LearnerConfig(Section):
    """The policy update."""

    advantage: AlgorithmName = Field("grpo", description=f"Algorithm: one of {', '.join(ADVANTAGES)}")
    baseline: Literal["group", "belief"] = Field(
        "group",
        description="What rewards are measured against: their group's mean, or what was believed before the step",
    )
    gamma: ClosedShare = Field(1.0, description="PPO, REINFORCE++: discount of later rewards")
    gae_lambda: ClosedShare = Field(1.0, description="PPO: 0 looks one token ahead, 1 to the end")
    value: Literal["none", "head", "model"] = Field(
        "head", description="PPO: value function on the policy's hidden states, or a model of its own"
    )
    value_learning_rate: PositiveFloat = Field(1e-3, description="PPO: AdamW learning rate of the value function")
    value_clip: PositiveFloat | None = Field(0.2, description="PPO: how far a value may move within a step")
    aggregation: Literal["auto", "token", "sequence", "group", "constant"] = Field(
        "auto", description="What a batch's loss is a mean over; 'auto': 'constant' for dr_grpo, 'token' for the others"
    )
    equal_groups: bool = Field(
        False, description="Every group weighs the same, however many rollouts it has (for on_commit = 'stop')"
    )
    overlong: Literal["keep", "mask", "penalty"] = Field(
        "keep", description="Answers cut at the limit: train on them, do not, or take reward off as they near it"
    )
    overlong_window: PositiveInt = Field(32, description="Tokens before the limit over which the penalty grows")
    overlong_penalty: PositiveFloat = Field(0.5, description="Reward taken off at the limit")
    kl_coef: NonNegativeFloat = Field(0.0, description="Weight of the KL to a frozen reference; 0: no reference")
    kl_estimator: Literal["k1", "k2", "k3"] = Field("k3", description="Estimator of that KL")
    kl_in: Literal["loss", "reward"] = Field("loss", description="Where that KL is added")
    reference: str | None = Field(None, description="Model of the reference; if not set, the model as training began")
    entropy_coef: NonNegativeFloat = Field(0.0, description="Weight of the entropy bonus")
    tis_cap: PositiveFloat | None = Field(
        2.0,
        description="Cap of the importance weights for the gap between engine and learner; "
        "off where the engine samples from the learner's own float32 weights",
    )
    learning_rate: PositiveFloat = Field(
        2e-4, description="AdamW learning rate; the default suits the built-in model, large ones want about 1e-6"
    )
    schedule: Literal["constant", "linear", "cosine"] = Field(
        "constant",
        description="Learning rate after the warm-up: as it is, or falling until the last step",
    )
    final_rate_share: ClosedShare = Field(0.0, description="Share of the learning rate left at the end of a schedule")
    warmup_steps: NonNegativeInt = Field(0, description="Steps of linear warm-up")
    weight_decay: NonNegativeFloat = Field(0.0, description="AdamW weight decay")
    beta1: Share = Field(0.9, description="AdamW decay of the first moment")
    beta2: Share = Field(0.99, description="AdamW decay of the second moment")
    master_weights: bool = Field(
        True, description="bfloat16 models: keep weights, gradients and AdamW's state in float32 beside them"
    )
    float32_states: bool = Field(
        True, description="bfloat16 models without master_weights: gradients and AdamW's state in float32 all the same"
    )
    max_grad_norm: PositiveFloat = Field(1.0, description="Gradients are scaled down to this norm")
    clip_low: Share = Field(0.2, description="The ratio is clipped below at 1 - clip_low")
    clip_high: PositiveFloat = Field(0.28, description="The ratio is clipped above at 1 + clip_high")
    dual_clip: Annotated[float, Field(gt=1)] | None = Field(3.0, description="Bound on the loss of negative advantages")
    epochs: PositiveInt = Field(1, description="How often a step's rollouts are trained on")
    updates_per_step: PositiveInt = Field(
        2, description="Optimizer updates made of each batch and epoch, over parts of its groups"
    )
    micro_batch_tokens: PositiveInt = Field(4096, description="Padded tokens in one forward and backward pass")
    layout: Literal["auto", "padded", "packed"] = Field(
        "auto",
        description="Micro-batches as rows, or end to end; 'auto': packed where attention skips what it masks",
    )
    share_prompts: bool = Field(
        True, description="Read a prompt once for all rollouts of its group, where that saves a tenth of the tokens"
    )
    logits_mib: PositiveInt = Field(256, description="Largest piece of float32 logits that is held at once, in MiB")
    gradient_checkpointing: bool = Field(False, description="Recompute each layer in the backward pass to save memory")
    max_bad_updates: PositiveInt = Field(3, description="Updates in a row that were not finite, after which a run ends")
    lora_rank: NonNegativeInt = Field(0, description="Rank of LoRA adapters; 0: train all weights")
    lora_alpha: PositiveFloat = Field(32.0, description="LoRA: adapters are scaled by lora_alpha / lora_rank")
    lora_targets: Annotated[tuple[str, ...], BeforeValidator(_one_or_more)] = Field(
        (), description="LoRA: names of the layers that get adapters; none named: all linear ones but the output head"
    )

    @model_validator(mode="after")
    def _fits_together(self):
        if self.clip_low > self.clip_high:
            raise ValueError(
                f"learner.clip_low = {self.clip_low}, learner.clip_high = {self.clip_high}; expected clip_low, which "
                "clips below, to be at most clip_high, which clips above: are they reversed?"
            )
        if get_estimator(self.advantage).needs_values and self.value == "none":
            raise ValueError(f"learner.value = 'none' with advantage = {self.advantage!r}; expected 'head' or 'model'")
        if self.baseline == "belief" and not get_estimator(self.advantage).takes_beliefs:
            able = ", ".join(name for name, estimator in ADVANTAGES.items() if estimator.takes_beliefs)
            raise ValueError(f"learner.baseline = 'belief' with advantage = {self.advantage!r}; expected one of {able}")
        if self.reference is not None and not self.kl_coef:
            raise ValueError(f"learner.reference = {self.reference!r} with kl_coef = 0; expected kl_coef above 0")
        if self.lora_targets and not self.lora_rank:
            raise ValueError("learner.lora_targets is set with lora_rank = 0; expected lora_rank of at least 1")
        return self

    @property
    def loss_mean(self) -> str:
        """The aggregation in force, a name in `sara.losses.AGGREGATIONS`."""
        if self.aggregation != "auto":
            return self.aggregation
        return "constant" if self.advantage == "dr_grpo" else "token"


class TrainingConfig(Section):
    """How long to train and how often to look."""

    steps: PositiveInt = Field(40, description="Optimizer steps")
    evaluate_every: NonNegativeInt = Field(10, description="Steps between evaluations; 0: only at the end")
    threads: NonNegativeInt = Field(0, description="CPU threads; 0: as many as there are cores")


class CheckpointConfig(Section):
    """When a run is saved, so that it can go on after an interruption, and how much of that is kept."""

    every: NonNegativeInt = Field(
        10, description="Steps between checkpoints; 0: only after the last, and when told to stop"
    )
    keep_last: PositiveInt = Field(2, description="Newest checkpoints that are kept; two outlast damage to one")
    keep_best: NonNegativeInt = Field(1, description="Further checkpoints that are kept for their held-out accuracy")


class EvaluationConfig(Section):
    """How held-out accuracy is measured."""

    k: PositiveInt = Field(8, description="Rollouts for each held-out prompt: avg@k, pass@k and maj@k")
    pass_at: tuple[PositiveInt, ...] | None = Field(
        None, description="Further n for pass@n, up to k; the powers of 2 below k if not set"
    )
    temperature: NonNegativeFloat | None = Field(
        None, description="Sampling temperature, 0 for greedy decoding; engine.temperature if not set"
    )
    max_new_tokens: PositiveInt | None = Field(
        None, description="Longest completion in tokens; engine.max_new_tokens if not set"
    )
    bootstrap: PositiveInt = Field(2000, description="Bootstrap draws over prompts behind the 95% interval")
    seed: Seed = Field(1234, description="Seed of the evaluation's rollouts, the same for every strategy and step")

    @property
    def further_n(self) -> tuple[int, ...]:
        """The n of pass@n besides k, ascending."""
        powers = [2**i for i in range(1, self.k.bit_length()) if 2**i < self.k]
        return tuple(sorted(set(powers if self.pass_at is None else self.pass_at) - {self.k}))

    @model_validator(mode="after")
    def _has_drawn_enough(self):
        too_large = [n for n in self.pass_at or () if n > self.k]
        if too_large:
            raise ValueError(f"evaluation.pass_at = {too_large[0]}; expected at most evaluation.k = {self.k}")
        return self


class TrackingConfig(Section):
    """Where MLflow records runs."""

    uri: str = Field("sqlite:///outputs/mlflow.db", description="MLflow tracking URI")
    experiment: str = Field("sara", min_length=1, description="MLflow experiment")
    system_metrics: bool = Field(True, description="Record the use of processor, memory and GPUs while training")
    upload_mib: NonNegativeInt = Field(
        200, description="Largest trained model that is kept among MLflow's artifacts too, in MiB"
    )
    when_absent: Literal["refuse", "queue"] = Field(
        "refuse", description="If nothing answers at the URI when a run starts: refuse to start, or deliver later"
    )
    wait_s: NonNegativeFloat = Field(15.0, description="Longest wait for MLflow at the end of a run, in seconds")


class ExperimentConfig(Section):
    """What a training run needs whatever its strategy and seed, and what all runs of a comparison have in common."""

    name: str = Field("run", min_length=1, description="Name of the run and of its folder")
    output_dir: Path = Field(Path("outputs"), description="Folder in which the run's folder is made")
    model: ModelConfig = ModelConfig()
    data: DataConfig = DataConfig()
    prompt: PromptConfig = PromptConfig()
    selection: SelectionConfig = SelectionConfig()
    allocation: AllocationConfig = AllocationConfig()
    engine: EngineConfig = EngineConfig()
    learner: LearnerConfig = LearnerConfig()
    training: TrainingConfig = TrainingConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    tracking: TrackingConfig = TrackingConfig()

    @model_validator(mode="after")
    def _penalty_fits(self):
        window, longest = self.learner.overlong_window, self.engine.max_new_tokens
        if self.learner.overlong == "penalty" and window > longest:
            raise ValueError(
                f"learner.overlong_window = {window}; expected at most engine.max_new_tokens = {longest}: "
                "the penalty would begin before the first token"
            )
        return self

    @model_validator(mode="after")
    def _pool_is_large_enough(self):
        groups = self.allocation.groups_per_step
        size = self.data.generated_size("train") if self.data.is_generated("train") else self.data.train_size
        if size is not None and groups > size:
            raise ValueError(f"allocation.groups_per_step = {groups}; expected at most data.train_size = {size}")
        return self

    def with_model(self, path: Path) -> Self:
        """The same configuration with another model."""
        return self.model_copy(update={"model": self.model.model_copy(update={"path": str(path)})})

    def in_folder(self, folder: Path) -> Self:
        """The same configuration with another output folder."""
        return self.model_copy(update={"output_dir": folder})


class RunConfig(ExperimentConfig):
    """One training run: a strategy, a seed and everything they need."""

    strategy: StrategyName = Field("sara", description=f"One of {', '.join(STRATEGIES)}")
    seed: Seed = Field(0, description="Seed of the prompts' order and of the rollouts")

    @property
    def title(self) -> str:
        """What a run is called beside others: the algorithm is named where it is not the usual one."""
        algorithm = "" if self.learner.advantage == "grpo" else f" {self.learner.advantage}"
        return f"{self.strategy}{algorithm} seed {self.seed}"


class CompareConfig(ExperimentConfig):
    """Several strategies and seeds on the same model and problems."""

    name: str = Field("comparison", min_length=1, description="Name of the comparison and of its folder")
    strategies: Annotated[tuple[StrategyName, ...], BeforeValidator(_one_or_more), AfterValidator(_are_distinct)] = (
        Field(("uniform", "ds", "dps", "sara", "sara+dps"), min_length=1, description="Strategies to compare")
    )
    seeds: Annotated[tuple[Seed, ...], BeforeValidator(_one_or_more), AfterValidator(_are_distinct)] = Field(
        (0,), min_length=1, description="Seeds to train each strategy with"
    )

    algorithms: Annotated[tuple[AlgorithmName, ...], BeforeValidator(_one_or_more), AfterValidator(_are_distinct)] = (
        Field((), description="Algorithms to train each strategy with; none named: learner.advantage alone")
    )

    def run(self, strategy: str, seed: int, algorithm: str | None = None) -> RunConfig:
        """Configuration of one of its training runs; without `algorithm`, with that of the learner."""
        values = {name: getattr(self, name) for name in ExperimentConfig.model_fields}
        name = f"{strategy.replace('+', '-')}-seed{seed}"
        if algorithm is not None:
            name = f"{algorithm.replace('+', 'p')}-{name}"
            values["learner"] = LearnerConfig(**self.learner.model_dump() | {"advantage": algorithm})
        return RunConfig(**values | {"name": name, "strategy": strategy, "seed": seed})

    def runs(self) -> list[RunConfig]:
        """Configurations of all its training runs, by seed, then algorithm, then strategy."""
        return [
            self.run(strategy, seed, algorithm)
            for seed in self.seeds
            for algorithm in self.algorithms or (None,)
            for strategy in self.strategies
        ]

    @model_validator(mode="after")
    def _algorithms_can_run(self):
        for algorithm in self.algorithms:
            LearnerConfig(**self.learner.model_dump() | {"advantage": algorithm})
        return self
