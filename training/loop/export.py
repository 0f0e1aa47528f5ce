"""Writes the bundle of a finished training, with its model card."""

import shutil
from datetime import UTC, datetime
from importlib.metadata import version

from interlinear.bundle import Limits, ModelCard, write_bundle
from interlinear.metrics.score import Score
from interlinear.models.model import Model
from interlinear.text import Tokenizer
from training.events import TrainingJob
from training.loop.checkpoints.checkpoint_manager import save_errors
from training.loop.evaluate import DevEvaluation


def model_card(job: TrainingJob, model: Model) -> ModelCard:
    """The bundle's model card, without scores and checksums."""
    settings = job.recipe.training
    libraries = ("torch", "tokenizers", "safetensors", "numpy", "sacrebleu")
    return ModelCard(
        task=job.task,
        languages=job.languages,
        model=model.config,
        search=job.recipe.search,
        limits=Limits(source_length=2 * settings.max_length, target_length=2 * settings.max_length),
        recipe={"name": job.recipe_name, **job.recipe.model_dump(mode="json", exclude_none=True)},
        data={
            "name": job.dataset,
            "licence": job.licence,
            "prepared": job.prepared.name,
            "dev_sentences": min(len(job.dev.references[0]), settings.dev_sentences),
        },
        git_commit=job.git_commit,
        versions={name: version(name) for name in libraries},
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def export_bundle(
    job: TrainingJob,
    model: Model,
    tokenizers: dict[str, Tokenizer],
    score: DevEvaluation,
    examples: list[dict[str, str]],
) -> None:
    """Write the run's bundle; its card has the dev scores and the examples. Raises TrainingError on write errors."""
    scores = {"dev_bleu": score.bleu, "dev_perplexity": Score(score=score.perplexity, signature="per token")}
    scores |= {"dev_rouge_l": score.rouge} if score.rouge else {}
    card = model_card(job, model).model_copy(update={"metrics": scores, "examples": examples})
    with save_errors(job.run / "bundle"):
        for leftover in job.run.glob(".bundle-*"):  # left by a process that was killed while writing
            shutil.rmtree(leftover, ignore_errors=True)
        write_bundle(job.run / "bundle", model, tokenizers, card)
