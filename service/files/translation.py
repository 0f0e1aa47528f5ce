"""Translation of one document: parsed, split into sentences, searched a few at a time, and rendered."""

import asyncio
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from weakref import WeakKeyDictionary

from seq2seq.generation_request import GenerationResult
from seq2seq.search import SearchOptions
from service.auth.rate_limits import units_of_tokens
from service.engine.engine import Engine, InvalidTextError
from service.files.document_processes import DocumentProcesses, FileSegment
from service.files.document_sentences import DocumentSentences, SplitSegment, split_segment
from service.files.file_job import FileJob
from service.inference import pivoting
from service.inference.detection import LanguageDetector
from service.inference.pivoting import Sentence
from service.inference.segmented_text import PivotStep, SegmentationOptions
from service.inference.terms import RequestTerms
from service.models import ServedModel, ServedModels
from service.pivots import ModelPath
from service.problems import RETRYABLE_STATUSES, Problem
from service.settings import Settings

CALLER = "files"  # the name by which all documents together have one caller's share of slots and threads
DETECTED_CHARACTERS = 10_000  # characters of a document by which its language is detected
ATTEMPTS = 20  # of a sentence that is refused because too much waits, or whose engine has ended
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
        self._slots: WeakKeyDictionary[ServedModel, asyncio.Semaphore] = WeakKeyDictionary()  # those of documents
        self._processes = DocumentProcesses(
            settings.file_jobs, settings.file_parse_seconds, settings.file_megabytes, settings.file_characters
        )

    def close(self) -> None:
        self._processes.close()

    async def translate(self, job: FileJob) -> None:
        """Translate a job's document, and write it to a new file, `job.result`. Raises Problem, and OSError."""
        request = job.request
        segments = await self._processes.segments(job.upload.path, request.name)
        job.total = len(segments)
        path = await self._choose_path(job, segments)
        job.target = path.language_pair[1]
        terms = RequestTerms(await request.find_terms(path.language_pair))
        sentences = DocumentSentences(await self._split(path, terms, segments))
        await request.charge(units(sentences))
        job.done = sentences.without_sentences
        await self._search(job, path, sentences)
        translations = await self._engine.preparation.map(
            CALLER, sentences.translation, sentences.segments, lambda segment: segment.characters
        )
        job.result = job.upload.store.create()
        await self._processes.render(job.upload.path, request.name, job.target, translations, job.result.stream)
        job.result.close()

    async def _choose_path(self, job: FileJob, segments: Sequence[FileSegment]) -> ModelPath[ServedModel]:
        """The model or models for a document; if its source is `auto`, by the language of the document's text."""
        request, models = job.request, self._models()
        source = request.source
        if source == "auto":
            possible = models.source_languages("translation", request.target, request.model)
            text = beginning(segments)
            (guesses,) = await self._engine.preparation.map(CALLER, self._detector.guesses, [text], len)
            source = next(guess.language for guess in guesses if guess.language in possible)
        return models.translation_path(source, request.target, request.model)

    async def _split(
        self, path: ModelPath[ServedModel], terms: RequestTerms, segments: Sequence[FileSegment]
    ) -> list[SplitSegment]:
        pivot = PivotStep(path.second, best_only(path.second)) if path.second else None
        how = SegmentationOptions(fits=self._engine.fits, pivot=pivot)
        return await self._engine.preparation.map(
            CALLER,
            partial(split_segment, path.first, best_only(path.first), terms, how),
            segments,
            lambda segment: len(segment.text),
            shared=terms.characters,
        )

    async def _search(self, job: FileJob, path: ModelPath[ServedModel], sentences: DocumentSentences) -> None:
        """Search all sentences, a few at a time. Documents that are translated together take turns. Raises Problem."""
        remaining = iter(list(sentences.sentences.items()))
        most = max(1, path.first.slots // 2)
        slots = self._slots.setdefault(path.first, asyncio.Semaphore(most))
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(most, len(sentences.sentences))):
                    group.create_task(self._search_next(job, sentences, remaining, slots))
        except* Problem as problems:
            raise first(problems) from None

    async def _search_next(
        self,
        job: FileJob,
        sentences: DocumentSentences,
        remaining: Iterator[tuple[Hashable, Sentence]],
        slots: asyncio.Semaphore,
    ) -> None:
        """Search one sentence after the other until none remain."""
        for key, sentence in remaining:
            async with slots:
                answer = await self._search_one(sentence, job.awaited)
            job.untranslated += answer is None
            job.done += sentences.add(key, answer)

    async def _search_one(self, sentence: Sentence, awaited: bool) -> GenerationResult | None:
        """The answer to a sentence; None if the model cannot read it. Raises Problem."""
        texts, beam = list(sentence.request.texts.values()), sentence.request.options.beam
        attempts = 1
        while True:
            try:
                with self._engine.admit(CALLER, texts, len, beam, awaited) as reservation:
                    (answer,) = await pivoting.search(self._engine, reservation, [sentence])
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
    return SearchOptions.model_validate(model.bundle.card.search.model_dump() | {"n_best": 1})


def units(sentences: DocumentSentences) -> int:
    """The number of texts as which a document counts: the tokens x beam of its search, of which 1,000 are a text."""
    beam = max((sentence.request.options.beam for sentence in sentences.sentences.values()), default=1)
    return max(1, units_of_tokens(sentences.tokens * beam))


def beginning(segments: Sequence[FileSegment]) -> str:
    """The first texts of a document."""
    texts: list[str] = []
    characters = 0
    for segment in segments:
        texts.append(segment.text)
        characters += len(segment.text)
        if characters > DETECTED_CHARACTERS:
            break
    return "\n".join(texts)[:DETECTED_CHARACTERS]


def first(group: BaseExceptionGroup[Problem]) -> Problem:
    """The first problem of a group, which may have groups in it."""
    error = group.exceptions[0]
    return first(error) if isinstance(error, BaseExceptionGroup) else error
