"""Translation of one document: processes parse and render it, and its distinct sentences are searched a few at a
time."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from weakref import WeakKeyDictionary

from interlinear.generation.request import GenerationResult, Request
from interlinear.search import SearchOptions
from interlinear.translation.alignment import align_answers
from interlinear.translation.detection import LanguageDetector, guess_of, is_certain
from interlinear.translation.language_tags import language_name
from interlinear.translation.paths import ModelPath
from interlinear.translation.sentences import Sentence
from interlinear.translation.splitting import Search, SplitOptions, SplitText, Step
from service.auth.rate_limits import units_of_tokens
from service.engine.engine import INLINE_CHARACTERS, Engine, InvalidTextError
from service.files.document_processes import DocumentProcesses
from service.files.file_job import FileJob
from service.files.worker_protocol import DocumentRequest, write_aligned
from service.inference import searching
from service.inference.terms import are_found
from service.models import ServedModel, ServedModels
from service.problems import RETRYABLE_STATUSES, Problem
from service.settings import Settings

CALLER = "files"  # the caller of all documents, which together have one caller's share of slots and threads
COUNTED_TOGETHER = 20  # sentences whose tokens are counted at once, in a few milliseconds
SEGMENTS_PER_UNIT = 100  # segments of a document that quotas and rate limits count as one text at least
SHORTEST_KEPT, KEPT_PROBABILITY = 30, 0.9  # characters and probability of text in the target language
ATTEMPTS = 20  # attempts for a sentence that is refused because too much waits, or whose engine has ended
MAX_PAUSE = 5.0  # seconds between two of them


class FileTranslator:
    """Translates documents with the service's models.

    All documents together have the share of one caller in the engine, and at most half of a model's slots, so that
    requests of texts do not wait for them.
    """

    def __init__(
        self, engine: Engine, models: Callable[[], ServedModels], detector: LanguageDetector, settings: Settings
    ) -> None:
        """`models`: gives the models served at the time."""
        self._engine, self._models, self._detector = engine, models, detector
        self._slots: WeakKeyDictionary[ServedModel, asyncio.Semaphore] = WeakKeyDictionary()  # slots of documents
        self._processes = DocumentProcesses(settings.file_jobs, settings.file_parse_seconds, settings.file_megabytes)
        self._limits = settings.file_characters, settings.file_sentences

    def close(self) -> None:
        self._processes.close()

    async def translate(self, job: FileJob) -> None:
        """Translate a job's document, and write it to a new file, `job.result`. Raises Problem, and OSError."""
        request, uploaded = job.request, job.upload.path
        path, in_target = await self._choose_path(job)
        terms = await request.find_terms(path.language_pair)
        (source, _), (_, job.target) = path.first.language_pair, path.language_pair
        found = terms if are_found(terms, path.first) else None
        document = DocumentRequest("sentences", request.name, *self._limits, source, job.target, found, request.options)
        job.warnings, sentences = await self._processes.split(uploaded, document)
        job.total = sum(sentence.completes for sentence in sentences)
        request.charge(await self._units(path.first, sentences, job.total))
        kept = await self._kept(job, sentences, in_target)
        lines = await self._search(job, path, sentences, kept)
        job.result = job.upload.store.create()
        await self._processes.write(uploaded, document, lines, job.result.stream)
        job.result.close()

    async def _choose_path(self, job: FileJob) -> tuple[ModelPath[ServedModel], bool]:
        """The model or models for a document, and whether it is in the target language already; both by the language of
        the document's text if its source is `auto`."""
        request, models = job.request, self._models()
        source = request.source
        if source == "auto":
            possible = models.source_languages("translation", request.target, request.model)
            text = await self._processes.beginning(job.upload.path, request.name, request.options)
            (guesses,) = await self._engine.preparation.map(CALLER, self._detector.guesses, [text], len)
            best = next(guess for guess in guesses if guess.language in possible)
            same, source = guess_of(guesses, request.target), best.language
            if same and is_certain(same, KEPT_PROBABILITY) and models.same_language(same.language, request.target):
                return models.translation_path(source, request.target, request.model), True
        return models.translation_path(source, request.target, request.model), False

    async def _kept(self, job: FileJob, sentences: Sequence[Sentence], every: bool) -> list[bool]:
        """Which sentences stay unchanged, since they are in the target language already: `every` one, or, in a document
        with the source `auto`, the sentences that are long enough for detection."""
        name = language_name(job.target)

        def in_target(sentence: Sentence) -> bool:
            if len(sentence.text) < SHORTEST_KEPT:
                return False
            guess = guess_of(self._detector.guesses(sentence.text), job.target)
            return guess is not None and is_certain(guess, KEPT_PROBABILITY)

        if every:
            job.warnings = [*job.warnings, f"The document is in {name} already, and is returned as it is."]
            return [True] * len(sentences)
        if job.request.source != "auto" or not self._models().same_language(job.target, job.target):
            return [False] * len(sentences)
        kept = await self._engine.preparation.map(CALLER, in_target, sentences, lambda sentence: len(sentence.text))
        if count := sum(kept):
            are = "A sentence is" if count == 1 else f"{count:,} sentences are"
            job.warnings = [
                *job.warnings,
                f"{are} in {name} already, and left as {'it is' if count == 1 else 'they are'}.",
            ]
        return kept

    async def _units(self, model: ServedModel, sentences: Sequence[Sentence], segments: int) -> int:
        """The number of texts that a document counts as: the larger of the units of its search (1,000 tokens x beam are
        a text) and the units of parsing and rendering its segments."""

        def tokens(some: Sequence[Sentence]) -> int:
            return sum(model.translator.count_tokens(sentence.text) + 1 for sentence in some)

        def characters(some: Sequence[Sentence]) -> int:
            return sum(len(sentence.text) for sentence in some)

        some = [sentences[i : i + COUNTED_TOGETHER] for i in range(0, len(sentences), COUNTED_TOGETHER)]
        counts = await self._engine.preparation.map(CALLER, tokens, some, characters)
        return max(1, units_of_tokens(sum(counts) * best_only(model).beam), -(-segments // SEGMENTS_PER_UNIT))

    async def _search(
        self, job: FileJob, path: ModelPath[ServedModel], sentences: Sequence[Sentence], kept: Sequence[bool]
    ) -> list[bytes]:
        """The translations of all sentences except kept ones, as `DocumentProcesses.write` takes them, searched a few
        at a time. Documents that are translated together take turns. Raises Problem."""
        lines = [b""] * len(sentences)
        remaining = iter(enumerate(sentences))
        most = max(1, path.first.slots // 2)
        slots = self._slots.setdefault(path.first, asyncio.Semaphore(most))

        async def search_next() -> None:
            for n, sentence in remaining:
                async with slots:
                    lines[n] = await self._translate_sentence(job, path, sentence, kept[n])
                job.done += sentence.completes

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(most, len(sentences))):
                    group.create_task(search_next())
        except* Problem as problems:
            raise first(problems) from None
        return lines

    async def _translate_sentence(
        self, job: FileJob, path: ModelPath[ServedModel], sentence: Sentence, kept: bool
    ) -> bytes:
        """The translation of a sentence, which is searched in parts if it is longer than the model reads; the sentence
        itself if it is kept."""
        model = path.first
        request = Request(
            {model.source: sentence.text}, best_only(model), explain=sentence.explain, terms=sentence.terms
        )
        pivot = Step(path.second, best_only(path.second)) if path.second else None
        how = SplitOptions(ServedModel.fits, "0", pivot=pivot)
        (text,) = await self._engine.preparation.map(
            CALLER,
            partial(SplitText.of, model, how=how),
            [request],
            lambda _: len(sentence.text),
            INLINE_CHARACTERS,
        )
        answers = []
        for j, part in enumerate(text.sentences):
            answer = None if kept else await self._search_one(Search(model, part, pivot), job.awaited)
            job.untranslated += answer is None and not kept
            answers.append(answer and text.format_answer(j, answer))
        return write_aligned(align_answers(text, answers))

    async def _search_one(self, search: Search[ServedModel], awaited: bool) -> GenerationResult | None:
        """The answer to a search; None if the model cannot read it. Raises Problem."""
        texts, beam = list(search.request.texts.values()), search.request.options.beam
        attempts = 1
        while True:
            try:
                with self._engine.admit(CALLER, texts, len, beam, awaited) as reservation:
                    (answer,) = await searching.search(self._engine, reservation, [search])
                return answer
            except InvalidTextError:
                return None
            except Problem as problem:
                stopping = self._engine.stopping and not awaited
                if problem.status not in RETRYABLE_STATUSES or attempts == ATTEMPTS or stopping:
                    raise
                await asyncio.sleep(min(float(problem.headers.get("Retry-After", 1)), MAX_PAUSE))
            attempts += 1


def best_only(model: ServedModel) -> SearchOptions:
    """The model's search options, for its best output alone."""
    return SearchOptions.model_validate(model.facts.search.model_dump() | {"n_best": 1})


def first(group: BaseExceptionGroup[Problem]) -> Problem:
    """The first problem of a group, which may have groups in it."""
    error = group.exceptions[0]
    return first(error) if isinstance(error, BaseExceptionGroup) else error
