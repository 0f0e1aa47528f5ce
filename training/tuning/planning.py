"""Plans a tuning: its trials' values, all checked before anything starts, and the jobs that train them."""

from dataclasses import dataclass, replace
from pathlib import Path

from interlinear.errors import TrainingError, UsageError
from training.data.dataset import open_dataset
from training.data.prepare.prepared import TARGET
from training.events import TrainingJob, TrainingPlan
from training.recipe import Recipe, load_recipe
from training.runs.job import check_run_name, plan_training, prepare_data, prepare_job
from training.runs.small_data import fit_to_data
from training.tuning.record import ENDED, TUNING_FILE, TrialRecord, TuningRecord, read_epochs, read_record
from training.tuning.space import SearchSpace, as_settings, default_space, draw_values, value_of

# Keys that decide how trials are compared, or for how long they train: they are the same for all.
SHARED_KEYS = {
    "training.score": "it is the score by which trials are compared: give it with --set",
    "training.dev_beam": "scores of different beams do not compare: give it with --set",
    "training.dev_sentences": "scores of different dev sentences do not compare: give it with --set",
    "training.max_length": "it decides which dev sentences are scored: give it with --set",
    "training.epochs": "it is the budget of every trial: give it with --epochs",
}
REDUCTION = 2.0  # ASHA continues about one of this number of trials at a rung
TOKEN_KEYS = ("target.", "joint_vocabulary")  # keys that change the target's tokenization
MERGED_KEYS = "sources."  # so do these, with one vocabulary for sources and target


@dataclass(frozen=True)
class TuningRequest:
    """The options of a tuning. `space`: the user's ranges; `settings`: of all trials; `epochs`: maximum of each
    trial."""

    recipe: str
    data: str
    settings: tuple[str, ...] = ()
    space: SearchSpace | None = None
    trials: int = 8
    seed: int = 1
    epochs: int | None = None
    grace: int = 1
    runs: Path = Path("runs")
    run: str | None = None
    data_root: Path | None = None
    prepared: Path = Path("prepared")
    tracking: str | None = None

    @property
    def folder(self) -> Path:
        """The tuning's folder, in which each trial has its run's folder."""
        return self.runs / (self.run or f"{Path(self.recipe).stem}-{Path(self.data).stem}-tuning")

    @property
    def shared_settings(self) -> list[str]:
        """The settings of all trials, with the number of epochs."""
        return [*self.settings, *([f"training.epochs={self.epochs}"] if self.epochs else [])]

    @property
    def set_keys(self) -> set[str]:
        return {setting.partition("=")[0].strip() for setting in self.settings}

    def trial_plan(self, trial: TrialRecord) -> TrainingPlan:
        """A trial as an ordinary training, which resumes if it has begun. Raises InterlinearError."""
        settings = [*self.shared_settings, *trial.settings]
        begun = (self.folder / trial.name).is_dir()
        return plan_training(self.recipe, self.data, settings, self.data_root, self.folder, trial.name, begun)


def plan_tuning(request: TuningRequest) -> TuningRecord:
    """The record of a new tuning, all trials' values checked. Changes nothing. Raises InterlinearError."""
    check_run_name(request.folder.name)
    if request.folder.exists():
        kind = "a tuning" if (request.folder / TUNING_FILE).exists() else "a run"
        raise UsageError(
            str(request.folder), f"there is {kind} of that name", "go on with --resume, or name another with --run"
        )
    if request.epochs and "training.epochs" in request.set_keys:
        raise UsageError("--epochs", "training.epochs is given with --set as well", "leave one of them out")
    recipe = base_plan(request).recipe
    if request.grace > recipe.training.epochs:
        raise UsageError(
            "--grace", f"{request.grace} is more than a trial's {recipe.training.epochs} epochs", "give fewer"
        )
    if request.space is not None:
        check_space(request, recipe)
    record = TuningRecord(
        recipe=request.recipe,
        data=request.data,
        settings=list(request.settings),
        space=dict(request.space or default_space(recipe, tuple(request.set_keys))),
        seed=request.seed,
        epochs=request.epochs,
        grace=request.grace,
        reduction=REDUCTION,
        metric=recipe.training.score,
        trials=[],
    )
    add_trials(record, request, recipe)
    return record


def base_plan(request: TuningRequest) -> TrainingPlan:
    """The training of the recipe's own values."""
    settings = request.shared_settings
    return plan_training(request.recipe, request.data, settings, request.data_root, request.folder, "trial")


def check_space(request: TuningRequest, recipe: Recipe) -> None:
    """Raises UsageError for a key that the recipe does not know, that --set gives as well, or that makes trials
    incomparable."""
    assert request.space is not None
    defaults = open_dataset(request.data, request.data_root).defaults
    for key, values in request.space.items():
        if reason := SHARED_KEYS.get(key):
            raise UsageError(f"the search space: {key}", "is the same for all trials", reason)
        if key in request.set_keys:
            raise UsageError(f"the search space: {key}", "is given with --set as well", "leave one of them out")
        if recipe.training.score == "perplexity" and changes_tokens(key, recipe):
            raise UsageError(
                f"the search space: {key}",
                "changes the target's tokens, and perplexities per token of different ones do not compare",
                "compare trials by --set training.score=bleu",
            )
        if value_of(recipe, key) is None:
            load_recipe(request.recipe, [*request.shared_settings, *as_settings({key: values.example})], defaults)


def changes_tokens(key: str, recipe: Recipe) -> bool:
    """Whether a key changes the segmentation of the target."""
    return key.startswith(TOKEN_KEYS) or (recipe.joint_vocabulary and key.startswith(MERGED_KEYS))


def add_trials(record: TuningRecord, request: TuningRequest, recipe: Recipe) -> None:
    """Add the trials that are missing, the first with the recipe's own values. Raises RecipeError for values that the
    recipe does not accept, before any is added."""
    new = [trial_record(record, number, recipe) for number in range(len(record.trials) + 1, request.trials + 1)]
    for trial in new:
        request.trial_plan(trial)
    record.trials += new


def trial_record(record: TuningRecord, number: int, recipe: Recipe) -> TrialRecord:
    """The trial of a number, from 1: the recipe itself, which is fitted to small data when it trains."""
    name = f"trial-{number:02}"
    if number == 1:
        return TrialRecord(name=name, values={key: value_of(recipe, key) for key in record.space}, settings=[])
    values = draw_values(record.space, record.seed, number)
    return TrialRecord(name=name, values=values, settings=[*as_settings(values), *record.fitted])


def resume_tuning(request: TuningRequest) -> TuningRecord:
    """The record of a resumed tuning, with everything that its trials have trained. Changes nothing.

    It may have more trials than before. Raises TrainingError where there is no such tuning, or it was another.
    """
    check_run_name(request.folder.name)
    record = read_record(request.folder)
    check_same_tuning(record, request)
    recipe = base_plan(request).recipe
    for trial in record.trials:
        trial.curve = read_epochs(request.folder / trial.name) or trial.curve
        if trial.state not in ENDED:
            trial.state, trial.problem = "pending", ""
            request.trial_plan(trial)
    add_trials(record, request, recipe)
    return record


def check_same_tuning(record: TuningRecord, request: TuningRequest) -> None:
    """Raises TrainingError, which names the difference, where a tuning was begun with other options."""
    asked: dict[str, object] = {
        "recipe": request.recipe,
        "--data": request.data,
        "--set": list(request.settings),
        "--seed": request.seed,
        "--epochs": request.epochs,
        "--grace": request.grace,
    }
    before: dict[str, object] = dict(
        zip(
            asked,
            (record.recipe, record.data, record.settings, record.seed, record.epochs, record.grace),
            strict=True,
        )
    )
    if request.space is not None:
        asked["the search space"], before["the search space"] = dict(request.space), record.space
    changed = [option for option in asked if asked[option] != before[option]]
    if request.trials < len(record.trials):
        changed.append(f"--trials ({len(record.trials)} -> {request.trials})")
    if changed:
        raise TrainingError(
            str(request.folder),
            f"the tuning was begun with another {', '.join(changed)}",
            "resume with the same options (there may be more trials), or start one of another name with --run",
        )


def fit_space(record: TuningRecord, request: TuningRequest) -> None:
    """Prepare the data. Where it is small, all trials get the epochs and the patience that the recipe gets for small
    data - the settings of a trial would depend on the batch that it draws - and draw around its settings, unless the
    user gave ranges."""
    plan = base_plan(request)
    dataset = open_dataset(request.data, request.data_root)
    prepared = prepare_data(plan.recipe, dataset, request.prepared, tracking=request.tracking)
    train = prepared.record.splits["train"]
    recipe, note = fit_to_data(plan.recipe, plan.stated, train.rows, train.tokens[TARGET] + train.rows)
    if not note:
        return
    if request.space is None:
        record.space = default_space(recipe, tuple(request.set_keys))
    lengths = {
        key: value_of(recipe, key) for key in ("training.epochs", "training.patience") if key not in record.space
    }
    record.fitted = as_settings({key: value for key, value in lengths.items() if value != value_of(plan.recipe, key)})
    record.trials = []
    add_trials(record, request, recipe)


def prepare_trials(record: TuningRecord, request: TuningRequest) -> dict[str, TrainingJob]:
    """The jobs of the trials that have not ended, by name, with their data prepared."""
    jobs = {}
    for trial in record.trials:
        if trial.state not in ENDED:
            plan = request.trial_plan(trial)
            job = prepare_job(plan, request.data, request.data_root, request.prepared, request.tracking)
            # A run without a checkpoint starts again; after a lost process it continues.
            jobs[trial.name] = replace(job, resume=True)
    return jobs
