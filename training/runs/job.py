"""Builds a training job from the names of a recipe and a data set and from settings, and manages the run's folder."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from interlinear.bundle import read_card
from interlinear.errors import DataError, RecipeError, TrainingError, UsageError
from interlinear.files import checksum
from training.data.arrays import write_atomically
from training.data.dataset import Dataset, open_dataset, read_references, read_rows
from training.data.images.image_features import check_features_match
from training.data.lexicon import with_lexicon_lines
from training.data.prepare.executors import PrepareExecutor
from training.data.prepare.prepare import prepare
from training.data.prepare.prepared import TARGET, PreparedData, tokenizer_file
from training.data.prepare.text_settings import text_config
from training.events import DevSet, TrainingJob, TrainingPlan
from training.loop.checkpoints.checkpoint_manager import CheckpointManager
from training.loop.checkpoints.resume import check_same_run, initial_progress
from training.loop.checkpoints.training_state import TrainingProgress
from training.recipe import Recipe, load_recipe, stated_keys
from training.runs.guide_links import link_source
from training.runs.run_lock import run_lock
from training.runs.small_data import fit_to_data, recommend
from training.runs.stored_runs import claim, download_records
from training.storage.storage import Storage


def prepare_data(
    recipe: Recipe,
    dataset: Dataset,
    folder: Path,
    progress: bool = True,
    executor: PrepareExecutor | None = None,
    tracking: str | None = None,
) -> PreparedData:
    """Tokenised data for the recipe's text settings, with the word links of its guide; prepared once and reused.

    `executor`: where to prepare, by default here. `tracking`: the MLflow server, for a guide's model by name.
    """
    check_recipe_fits(recipe, dataset)
    if recipe.training.lexicon:
        (source,) = recipe.texts
        dataset = with_lexicon_lines(dataset, source, recipe.training.lexicon, folder)
    configs = {
        name: text_config(dataset, name, settings.units, settings.vocabulary, settings.lowercase)
        for name, settings in recipe.texts.items()
    }
    target_settings = recipe.target
    target = text_config(
        dataset,
        "target",
        target_settings.units,
        target_settings.vocabulary,
        target_settings.lowercase,
        target_settings.operations_on,
    )
    return prepare(
        dataset,
        configs,
        target,
        joint=recipe.joint_vocabulary,
        max_length=recipe.training.max_length,
        folder=folder,
        progress=progress,
        images={name: image.pixels for name, image in recipe.images.items()},
        executor=executor,
        guide=link_source(recipe, dataset, tracking),
    )


def check_recipe_fits(recipe: Recipe, dataset: Dataset) -> None:
    """Raises DataError where the data set has no split, text or image field that the recipe trains on."""
    for split in ("train", "dev"):
        if not dataset.has_split(split):
            raise DataError(dataset.name, f"the data set has no {split} split", "training needs train and dev")
        texts, images = dataset.fields(split), dataset.images(split)
        for required, available, kind in (
            ((*recipe.texts, "target"), texts, "text"),
            (recipe.images, images, "pictures"),
        ):
            for name in required:
                if name not in available:
                    raise dataset.missing_field_error(split, name, available, kind)


def network_weights(recipe: Recipe) -> dict[str, Path]:
    """The files with initial weights of the image sources' networks. Raises DataError where one is missing."""
    files = {name: Path(image.weights).resolve() for name, image in recipe.images.items() if image.weights}
    for name, path in files.items():
        if not path.is_file():
            raise DataError(str(path), f"there is no such file, which sources.{name}.weights names", "give its path")
    return files


def read_dev_set(recipe: Recipe, dataset: Dataset) -> DevSet:
    """The dev set's text, with all of its references."""
    names = list(recipe.texts)
    fields = [dataset.field("dev", name) for name in (*names, "target")]
    rows = list(read_rows(dataset, "dev", [*names, "target"]))
    sources = {name: tuple(row.texts[i] for row in rows) for i, name in enumerate(names)}
    references = read_references(dataset, "dev", [row.texts[-1] for row in rows])
    lines = tuple(row.number - 1 for row in rows)
    tokenised = frozenset(field.name for field in fields if field.tokenised)
    return DevSet(sources, references, tokenised, fields[-1].lowercase, lines, fields[-1].language)


def plan_training(
    recipe_name: str,
    data: str,
    settings: Sequence[str] = (),
    data_root: Path | None = None,
    runs: Path = Path("runs"),
    run: str | None = None,
    resume: bool = False,
    storage: Storage | None = None,
) -> TrainingPlan:
    """Check the recipe with its settings, the data set's description and the run's folder, without changing anything.

    With a storage, the run's name is one that is free there too. Raises InterlinearError.
    """
    if storage:
        storage.check()
    dataset = open_dataset(data, data_root)
    recipe = load_recipe(recipe_name, settings, dataset.defaults)
    check_recipe_fits(recipe, dataset)
    stored_names = storage.names("runs") if storage else []
    return TrainingPlan(
        recipe=recipe,
        recipe_name=Path(recipe_name).stem,
        dataset=dataset.name,
        licence=dataset.licence,
        task=dataset.task,
        languages={name: code for name, code in dataset.languages.items() if name in {*recipe.texts, "target"}},
        run=choose_run_folder(runs, run or f"{Path(recipe_name).stem}-{dataset.name}", resume, stored_names).resolve(),
        resume=resume,
        git_commit=git_commit(),
        network_weights=network_weights(recipe),
        stated=stated_keys(recipe_name, settings, dataset.defaults),
    )


def prepare_job(
    plan: TrainingPlan,
    data: str,
    data_root: Path | None = None,
    prepared: Path = Path("prepared"),
    tracking: str | None = None,
    storage: Storage | None = None,
    on_planned: Callable[[TrainingPlan], None] | None = None,
) -> TrainingJob:
    """Prepare the data of a planned training where that is missing, and build the job. Settings fitted to small data
    are printed on stderr.

    With a storage, a run that is stored there can be resumed here. `on_planned` is called once the run has its folder,
    before any long work.
    """
    with create_run_folder(plan.run):
        if storage and plan.resume:
            download_records(storage, plan.run)
        if on_planned:
            on_planned(plan)
        dataset = open_dataset(data, data_root)
        prepared_data = prepare_data(plan.recipe, dataset, prepared, tracking=tracking)
        train = prepared_data.record.splits["train"]
        begun = begun_recipe(plan.run) if plan.resume else None
        recipe, note = fit_to_data(plan.recipe, plan.stated, train.rows, train.tokens[TARGET] + train.rows, begun)
        for line in filter(None, (note, "" if plan.resume else recommend(plan.recipe, train.rows))):
            print(f"{plan.name}: {line}", file=sys.stderr, flush=True)
        if note:
            plan = replace(plan, recipe=recipe)
        initial_model = (
            fetch_initial_model(plan.recipe, prepared_data, tracking) if plan.recipe.training.init_from else None
        )
        start = initial_progress(plan.recipe, prepared_data.folder)
        if plan.resume:  # before recipe.yaml is replaced, which the next attempt reads
            check_local_state(plan.run, start)
        run_storage = claim(storage, plan.run, start, plan.resume) if storage else None
        write_atomically(plan.run / "recipe.yaml", plan.recipe.as_yaml().encode())
        return TrainingJob(
            **vars(plan),
            prepared=prepared_data.folder.resolve(),
            dev=read_dev_set(plan.recipe, dataset),
            init_from=initial_model,
            run_storage=run_storage,
        )


def begun_recipe(run: Path) -> Recipe | None:
    """The recipe with which a run began, with the settings fitted to small data; None where that cannot be read: the
    checkpoint has the recipe too, and is compared later."""
    try:
        return load_recipe(str(run / "recipe.yaml"))
    except RecipeError:
        return None


def check_local_state(run: Path, now: TrainingProgress) -> None:
    """Raises TrainingError where the newest state in a run's folder is of another recipe or of other data."""
    checkpoints = CheckpointManager(run, keep=1)
    if (state := checkpoints.newest_intact()) is not None:
        check_same_run(run, checkpoints.read_progress(state), now)


def create_job(
    recipe_name: str,
    data: str,
    settings: Sequence[str] = (),
    data_root: Path | None = None,
    prepared: Path = Path("prepared"),
    runs: Path = Path("runs"),
    run: str | None = None,
    resume: bool = False,
    tracking: str | None = None,
    storage: Storage | None = None,
    on_planned: Callable[[TrainingPlan], None] | None = None,
) -> TrainingJob:
    """`plan_training` followed by `prepare_job`."""
    plan = plan_training(recipe_name, data, settings, data_root, runs, run, resume, storage)
    return prepare_job(plan, data, data_root, prepared, tracking, storage, on_planned)


@contextmanager
def create_run_folder(folder: Path) -> Iterator[None]:
    """Create a run's folder for the preparation of its training. An error removes a new folder; an interruption keeps
    it, so that the training can resume in the same MLflow run."""
    new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except Exception:
        if new:
            shutil.rmtree(folder)
        raise


def fetch_initial_model(recipe: Recipe, prepared: PreparedData, tracking: str | None) -> Path:
    """The bundle that `training.init_from` names. Raises TrainingError where its vocabularies differ from the data's,
    and DataError where the data's image features were computed by another network than the model's."""
    from interlinear.registry.resolve import fetch_bundle

    name = recipe.training.init_from
    assert name is not None
    folder = fetch_bundle(name, tracking).folder
    card = read_card(folder)
    ours = {tokenizer_file(field): prepared.folder / tokenizer_file(field) for field in [*recipe.texts, "target"]}
    for file, path in ours.items():
        if card.files.get(file) != checksum(path):
            raise TrainingError(
                f"training.init_from {name}",
                f"its vocabulary is another than this data's ({file})",
                "train both on the same data with the same text settings",
            )
    for source, grid in prepared.grids.items():
        theirs = card.model.images.get(source)
        if theirs is not None and theirs.network is None:
            check_features_match(theirs, grid, prepared.folder, f"the model of training.init_from {name}")
    return folder.resolve()


def choose_run_folder(runs: Path, name: str, resume: bool, stored_names: Sequence[str] = ()) -> Path:
    """The newest run of that name to resume; else a new one: NAME, then NAME-2, NAME-3, ... Where there is no NAME,
    NAME-2 is a name of its own.

    `stored_names`: the names of the runs on the storage, which count like runs in the folder.
    """
    check_run_name(name)
    names = {*stored_names, *(path.name for path in runs.glob(f"{name}*") if path.is_dir())}
    if name not in names:
        if resume:
            raise TrainingError(str(runs / name), "there is no run of that name to resume", "start it without --resume")
        return runs / name
    matches = [re.fullmatch(rf"{re.escape(name)}-([2-9]|[1-9]\d+)", known, re.ASCII) for known in names]
    newest = max((int(match[1]) for match in matches if match), default=1)
    number = newest if resume else newest + 1
    return runs / (name if number == 1 else f"{name}-{number}")


@contextmanager
def locked_run(plan: TrainingPlan, name: str, storage: Storage | None = None) -> Iterator[TrainingPlan]:
    """Hold the lock of a plan's run, asked for by `name`. A new run gets the next name where another process has begun
    one of its name in the meantime. Raises TrainingError where another process trains the run to be resumed."""
    taken: list[str] = []
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(run_lock(plan.run))
            except TrainingError:
                if plan.resume:
                    raise
            else:
                if plan.resume or not plan.run.exists():
                    break
                stack.close()
            taken.append(plan.name)
            names = [*taken, *(storage.names("runs") if storage else [])]
            plan = replace(plan, run=choose_run_folder(plan.run.parent, name, False, names))
        yield plan


def check_run_name(name: str) -> None:
    """Raises UsageError for an invalid run name."""
    if not re.fullmatch(r"[\w.@+-]+", name) or not name.strip("."):
        raise UsageError("--run", f"'{name}' is no name for a run", "use letters, digits, '-', '_' and '.'")


def git_commit() -> str | None:
    """The commit of the checkout that this code runs from, if it is one."""
    try:
        result = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=Path(__file__).parent,
            check=False,
            capture_output=True,
            text=True,
            timeout=5,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.strip() if result.returncode == 0 else None
