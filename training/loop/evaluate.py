"""Dev-set evaluation: perplexity, scores of searched outputs, and trivial baselines."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from interlinear.batch import Batch
from interlinear.bundle import Bundle, ModelCard
from interlinear.devices import is_out_of_memory
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import GenerationResult
from interlinear.losses.training_loss import training_loss
from interlinear.metrics.metric import ReferenceSet, SystemOutputs
from interlinear.metrics.rouge import RougeL
from interlinear.metrics.score import Score
from interlinear.metrics.translation import Sacrebleu, bleu
from interlinear.models.model import Model
from interlinear.search import SearchOptions
from interlinear.search.captured import captured_on_gpu
from interlinear.search.step import SearchStep, search_step
from interlinear.text import join_subwords
from training.data.baselines import Baseline, most_frequent_output
from training.data.prepare.prepared import PreparedData, PreparedSplit
from training.events import TrainingJob
from training.loop.batches import BatchLoader, BatchPlan
from training.loop.examples import choose_examples
from training.loop.out_of_memory import empty_cache, halve
from training.loop.process_group import ProcessGroup


@dataclass(frozen=True)
class DevEvaluation:
    """Dev-set results of one set of weights. `value` is the deciding score; higher is better.

    `gate`: the contextual gates' mean value over the dev set's words, the share of the annotations. `outputs`: of the
    rows that were searched.
    """

    perplexity: float
    bleu: Score
    rouge: Score | None  # ROUGE-L, where it is the deciding score
    value: float
    gate: float | None = None
    outputs: tuple[str, ...] = ()


class Evaluator:
    """Evaluates a model's current weights on the dev set, shared out over the workers."""

    def __init__(
        self,
        job: TrainingJob,
        workers: ProcessGroup,
        prepared: PreparedData,
        model: Model,
        card: ModelCard,
        device: torch.device,
        precision: Callable[[], AbstractContextManager[object]],
    ) -> None:
        """`card`: the model card without scores. `precision`: returns the autocast context of the forward pass."""
        self.job, self.workers, self.prepared, self.device = job, workers, prepared, device
        self.model, self.card, self.precision = model, card, precision
        self.settings = job.recipe.training
        self.dev = prepared.split("dev")
        self.texts = list(job.recipe.texts)
        self.fields = [*self.texts, "target"]

    @torch.inference_mode()
    def evaluate(self) -> DevEvaluation:
        """Dev perplexity, and dev scores by search; every worker takes its share."""
        self.model.eval()
        lengths = {field: self.dev.lengths(field) for field in self.fields}
        plan = BatchPlan(lengths, tokens=8000, sentences=None, seed=0, epoch=0, accumulation=1, shuffle=False)
        sums = torch.zeros(2, dtype=torch.float64)  # negative log-likelihood, gates
        rank, world_size, images = self.workers.rank, self.workers.world_size, self.model.config.images
        with BatchLoader(self.dev, plan, self.texts, rank, world_size, images=images) as loader:
            for _, batches in loader:
                for batch in batches:
                    if batch.rows:
                        sums += self.sums_of(batch)
        tokens = sum(plan.target_tokens(update) for update in range(plan.updates))
        self.workers.all_reduce(sums)
        perplexity = math.exp(min(float(sums[0]) / tokens, 100.0))
        outputs = self.dev_outputs()
        bleu, rouge = self.scores_of(outputs)
        decisive = rouge.score if rouge else bleu.score if self.settings.score == "bleu" else -perplexity
        gate = float(sums[1]) / tokens if "gated" in self.model.attention_kinds else None
        return DevEvaluation(perplexity, bleu, rouge, decisive, gate, outputs)

    def sums_of(self, batch: Batch) -> Tensor:
        """The negative log-likelihood of a batch and the sum of its words' gates (0 without gates), (2,), on the CPU;
        computed in halves where it does not fit into memory."""
        try:
            with self.precision():
                loss = training_loss(self.model, batch.to(self.device))
                return torch.stack([loss.nats, loss.nats.new_zeros(()) if loss.gate is None else loss.gate]).cpu()
        except (RuntimeError, MemoryError) as error:
            if batch.rows == 1 or not is_out_of_memory(error):
                raise
        empty_cache(self.device)
        first, second = halve(batch)
        return self.sums_of(first) + self.sums_of(second)

    def dev_outputs(self) -> tuple[str, ...]:
        """One output for each of the searched rows, in the text's own form."""
        chosen = self.searched_rows()
        own_rows = chosen[self.workers.rank :: self.workers.world_size]
        shares = self.workers.all_gather(list(self.translate(own_rows)))
        world_size = self.workers.world_size
        return tuple(shares[i % world_size][i // world_size] for i in range(len(chosen)))

    def searched_rows(self) -> Sequence[int]:
        """The rows of the dev set that are searched: all, or `dev_sentences` of them, evenly spread."""
        rows, limit = range(len(self.job.dev.references[0])), self.settings.dev_sentences
        return rows if len(rows) <= limit else [int(i) for i in np.linspace(0, len(rows) - 1, limit)]

    def scores_of(self, hypotheses: Sequence[str]) -> tuple[Score, Score | None]:
        """BLEU of one output for each of the searched rows, and ROUGE-L where it is the deciding score."""
        dev = self.job.dev
        references = [[reference[i] for i in self.searched_rows()] for reference in dev.references]
        outputs, reference_set = SystemOutputs.from_lines(hypotheses), ReferenceSet.from_lines(references)
        metric = Sacrebleu("bleu", bleu, dev.preprocessing)
        rouge = RougeL("rouge-l").score(outputs, reference_set) if self.settings.score == "rouge-l" else None
        return metric.score(outputs, reference_set), rouge

    def examples(self, score: DevEvaluation) -> list[dict[str, str]]:
        """Examples for trying the current weights, which have this score, by source."""
        bundle = Bundle(self.model, self.prepared.tokenizers, self.card, self.job.run)
        outputs = dict(zip(self.searched_rows(), score.outputs, strict=True))
        return choose_examples(bundle, self.job.dev, self.dev, outputs)

    def baseline(self, score: DevEvaluation, train: PreparedSplit) -> Baseline:
        """The trivial baseline with the highest dev score by the deciding metric (BLEU if the deciding metric is
        perplexity), with the model's score by the same metric."""
        chosen = self.searched_rows()
        outputs = {}
        for name, lines in self.job.dev.sources.items():
            marker = self.prepared.tokenizers[name].config.segmentation
            copied = f"copying '{name}'" if len(self.texts) > 1 else "copying the source"
            outputs[copied] = [join_subwords(lines[i], marker) for i in chosen]
        if not self.job.recipe.target.operations_on:  # else targets are edit operations, not text
            frequent = most_frequent_output(train, self.prepared.tokenizers["target"])
            outputs["the most frequent output of the training data"] = [frequent] * len(chosen)
        scores = {name: self.scores_of(hypotheses) for name, hypotheses in outputs.items()}
        values = {name: rouge.score if rouge else bleu.score for name, (bleu, rouge) in scores.items()}
        best = max(values, key=lambda name: values[name])
        metric, model_score = ("ROUGE-L", score.rouge) if score.rouge else ("BLEU", score.bleu)
        return Baseline(best, metric, values[best], model_score.score)

    def search_step(self) -> SearchStep:
        """The step of one dev set's search, on a GPU with CUDA graphs; updates need their memory afterwards."""
        return captured_on_gpu(self.device) if self.job.cuda_graphs else search_step

    def translate(self, rows: Sequence[int]) -> Iterator[str]:
        """Outputs of the current weights for rows of the dev set; an empty line for a row that cannot be searched (too
        long)."""
        options = SearchOptions(beam=self.settings.dev_beam, length_penalty=self.job.recipe.search.length_penalty)
        bundle = Bundle(self.model, self.prepared.tokenizers, self.card, self.job.run, search_step=self.search_step())
        requests = (self.job.dev.request(row, options, self.dev, bundle.card.model) for row in rows)
        for answer in SequenceGenerator(bundle, slots=64, width=options.beam).generate(requests):
            yield answer.candidates[0].text if isinstance(answer, GenerationResult) else ""
