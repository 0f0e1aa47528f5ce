"""Texts of several sentences: split, searched sentence by sentence, and put together again as they stood."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

from seq2seq.explain import Explanation, Span
from seq2seq.generate import Candidate, GenerationResult, Request
from seq2seq.text.sentences import fewest_of, split_sentences_by_line
from service.engine.admission import Reservation
from service.engine.engine import Engine, InvalidTextError, run_inline_or_in_thread
from service.engine.queued import OutputListener
from service.models import ServedModel
from service.problems import Problem

INLINE_CHARACTERS = 2000  # characters that are split in less time than a thread takes to wake
UNSPACED_LANGUAGES = {"zh", "ja", "th", "lo", "km", "my", "bo", "dz"}  # languages that put no space between sentences


@dataclass(frozen=True)
class SegmentedText:
    """A request for one text, as requests for its sentences."""

    model: ServedModel
    whole: Request
    sentences: tuple[Request, ...]
    separators: tuple[str, ...]  # what stands before the first sentence, between two, and behind the last
    offsets: tuple[int, ...]  # of the sentences, in the text

    @staticmethod
    def of(model: ServedModel, request: Request) -> "SegmentedText":
        """A text to translate, in its sentences. A headline is of a whole text, and an edit, or a picture, belongs to
        the whole: these are not split."""
        text = request.texts.get(model.source)
        if model.task != "translation" or len(request.texts) > 1 or request.images or text is None:
            return SegmentedText(model, request, (request,), ("", ""), (0,))
        source, target = model.language_pair
        spans = split_sentences_by_line(text, source)
        ends = [0, *(end for _, end in spans)]
        offsets = [*(start for start, _ in spans), len(text)]
        separators = [text[end:start] for end, start in zip(ends, offsets, strict=True)]
        if target not in UNSPACED_LANGUAGES:
            separators[1:-1] = [gap or " " for gap in separators[1:-1]]
        sentences = tuple(replace(request, texts={model.source: text[start:end]}) for start, end in spans)
        return SegmentedText(model, request, sentences, tuple(separators), tuple(offsets[:-1]))

    def join(self, parts: Sequence[str]) -> str:
        """The answers to the first sentences, or to all, with what stands between these."""
        if not parts:
            return ""
        text = "".join(gap + part for gap, part in zip(self.separators, parts, strict=False))
        return text + self.separators[-1] if len(parts) == len(self.sentences) else text

    def merge_answers(self, answers: Sequence[GenerationResult]) -> GenerationResult:
        """The answer to the whole text from those to its sentences.

        Its candidates are the best combinations of the sentences' own: ranked by the mean of the sentences' scores.
        """
        if self.separators == ("", ""):
            return answers[0]
        scores = [[candidate.score for candidate in answer.candidates] for answer in answers]
        combined = [
            [answer.candidates[choice.get(i, 0)] for i, answer in enumerate(answers)]
            for choice in best_combinations(scores, self.whole.options.n_best)
        ]
        candidates = [
            Candidate(
                self.join([part.text for part in parts]),
                sum(part.score for part in parts) / len(parts),
                sum(part.log_probability for part in parts),
                [word for part in parts for word in part.ids],
            )
            for parts in combined
        ]
        if not self.whole.explain:
            return GenerationResult(candidates)
        explanations = [answer.explanation for answer in answers if answer.explanation is not None]
        texts = [answer.candidates[0].text for answer in answers]
        before = [len(self.join(texts[:i])) + len(self.separators[i]) for i in range(len(texts))]
        return GenerationResult(candidates, merge_explanations(explanations, self.offsets, before))


def best_combinations(scores: Sequence[Sequence[float]], wanted: int) -> list[dict[int, int]]:
    """The best choices of one from each list, best first by their sums; each list is best first. A choice says by
    the list's place what it takes that is not the list's first."""
    # With n wanted, no others than the n lists whose second is the least worse can be chosen from.
    losses = sorted((own[0] - own[1], i) for i, own in enumerate(scores) if len(own) > 1)
    places = [i for _, i in losses[:wanted]]
    first = (0,) * len(places)
    best: list[dict[int, int]] = []
    queue, visited = [(0.0, first)], {first}
    while queue and len(best) < wanted:
        loss, choice = heapq.heappop(queue)
        best.append({i: k for i, k in zip(places, choice, strict=True) if k})
        for at, (i, k) in enumerate(zip(places, choice, strict=True)):
            other = (*choice[:at], k + 1, *choice[at + 1 :])
            if k + 1 < len(scores[i]) and other not in visited:
                visited.add(other)
                heapq.heappush(queue, (loss + scores[i][k] - scores[i][k + 1], other))
    return best


def merge_explanations(parts: Sequence[Explanation], sources: Sequence[int], targets: Sequence[int]) -> Explanation:
    """One explanation of sentences that begin at these places of the texts: no word looked at another sentence."""
    if len(parts) == 1 and sources[0] == targets[0] == 0:
        return parts[0]
    columns = sum(len(part.source) for part in parts)
    matrices: dict[str, list[list[float]]] = {name: [] for name in parts[0].matrices}
    alignment: list[tuple[int, int]] = []
    left = above = 0
    for part in parts:
        right = columns - left - len(part.source)
        for name, rows in matrices.items():
            rows.extend([0.0] * left + row + [0.0] * right for row in part.matrices[name])
        alignment.extend((i + left, j + above) for i, j in part.alignment)
        left, above = left + len(part.source), above + len(part.target)
    return Explanation(
        source=[shift_span(span, at) for part, at in zip(parts, sources, strict=True) for span in part.source],
        target=[shift_span(span, at) for part, at in zip(parts, targets, strict=True) for span in part.target],
        matrices=matrices,
        gate=concatenate([part.gate for part in parts]),
        fertility=concatenate([part.fertility for part in parts]),
        alignment=alignment,
        sentences=[(len(part.source), len(part.target)) for part in parts],
        sources=parts[0].sources,
        between=parts[0].between,
    )


def shift_span(span: Span, by: int) -> Span:
    return Span(text=span.text, start=span.start + by, end=span.end + by)


def concatenate(parts: Sequence[list[float] | None]) -> list[float] | None:
    """Numbers of words, sentence after sentence; None where the model has none."""
    return [number for part in parts for number in part or []] if parts[0] is not None else None


def too_many_sentences(sentences: int) -> Problem:
    """More sentences than a request may have."""
    return Problem(
        400, f"the request has more than {sentences} sentences, the most that are taken: ask for fewer at a time"
    )


def check_lines(texts: Sequence[str], sentences: int) -> None:
    """Raises Problem where the lines of the texts are more than the sentences that a request may have, before any work
    is done on them."""
    if fewest_of(texts, sentences) > sentences:
        raise too_many_sentences(sentences)


async def segment(
    engine: Engine, reservation: Reservation, wanted: Sequence[tuple[ServedModel, Request]]
) -> list[SegmentedText]:
    """Every text in its sentences. Raises Problem for more sentences than a request may have, or have explained; no
    text is split once there are."""
    sentences, explained = engine.settings.sentences, engine.settings.explained
    count = 0

    def segment_one(one: tuple[ServedModel, Request]) -> SegmentedText:
        nonlocal count
        if count > sentences:
            raise too_many_sentences(sentences)
        found = SegmentedText.of(*one)
        count += len(found.sentences)
        return found

    segmented_texts = await engine.preparation.map(
        reservation.caller, segment_one, wanted, characters_of, INLINE_CHARACTERS
    )
    if count > sentences:
        raise too_many_sentences(sentences)
    # An explanation says of every word of a text what it makes of every other: it grows with the text's square.
    if sum(len(segmented.sentences) ** 2 for segmented in segmented_texts if segmented.whole.explain) > explained**2:
        raise Problem.in_field(
            "explain",
            f"is for texts of up to {explained} sentences, or for more texts of fewer: explain a part at a time",
        )
    return segmented_texts


def characters_of(wanted: tuple[ServedModel, Request]) -> int:
    """How long a text is that is to be split."""
    return sum(map(len, wanted[1].texts.values()))


async def search(
    engine: Engine,
    reservation: Reservation,
    segmented_texts: Sequence[SegmentedText],
    listener: OutputListener | None = None,
) -> list[GenerationResult]:
    """Search every sentence, and answer every text. Raises RefusedError with a text's index, and as the engine does."""
    texts = [i for i, segmented in enumerate(segmented_texts) for _ in segmented.sentences]
    wanted = [(segmented.model, sentence) for segmented in segmented_texts for sentence in segmented.sentences]
    try:
        found = iter(await engine.search(wanted, listener, reservation))
    except InvalidTextError as refused:
        raise InvalidTextError(texts[refused.index], refused.error) from None
    by_text = [[next(found) for _ in segmented.sentences] for segmented in segmented_texts]

    def put_together() -> list[GenerationResult]:
        return [segmented.merge_answers(own) for segmented, own in zip(segmented_texts, by_text, strict=True)]

    explained = any(segmented.whole.explain for segmented in segmented_texts)
    return await run_inline_or_in_thread(not explained and len(wanted) <= 10, put_together)
