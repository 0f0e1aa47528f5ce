"""Texts of several sentences: split, searched sentence by sentence, and put together again as they stood."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

from seq2seq.explain import Explanation, Span
from seq2seq.generate import Answer, Candidate, Request
from seq2seq.text.sentences import by_lines, fewest_of
from service.engine.admission import Reserved
from service.engine.engine import Engine, RefusedError, here_or_aside
from service.engine.queued import Follower
from service.models import Served
from service.problems import Problem

SHORT = 2000  # characters that are split in less time than a thread takes to wake
UNSPACED = {"zh", "ja", "th", "lo", "km", "my", "bo", "dz"}  # languages that put no space between sentences


@dataclass(frozen=True)
class Passage:
    """A request for one text, as requests for its sentences."""

    model: Served
    whole: Request
    sentences: tuple[Request, ...]
    between: tuple[str, ...]  # what stands before the first sentence, between two, and behind the last
    starts: tuple[int, ...]  # of the sentences, in the text

    @staticmethod
    def of(model: Served, request: Request) -> "Passage":
        """A text to translate, in its sentences. A headline is of a whole text, and an edit, or a picture, belongs to
        the whole: these are not split."""
        text = request.texts.get(model.source)
        if model.task != "translation" or len(request.texts) > 1 or request.images or text is None:
            return Passage(model, request, (request,), ("", ""), (0,))
        source, target = model.pair
        spans = by_lines(text, source)
        ends = [0, *(end for _, end in spans)]
        starts = [*(start for start, _ in spans), len(text)]
        between = [text[end:start] for end, start in zip(ends, starts, strict=True)]
        if target not in UNSPACED:
            between[1:-1] = [gap or " " for gap in between[1:-1]]
        sentences = tuple(replace(request, texts={model.source: text[start:end]}) for start, end in spans)
        return Passage(model, request, sentences, tuple(between), tuple(starts[:-1]))

    def joined(self, parts: Sequence[str]) -> str:
        """The answers to the first sentences, or to all, with what stands between these."""
        if not parts:
            return ""
        text = "".join(gap + part for gap, part in zip(self.between, parts, strict=False))
        return text + self.between[-1] if len(parts) == len(self.sentences) else text

    def answer(self, answers: Sequence[Answer]) -> Answer:
        """The answer to the whole text from those to its sentences.

        Its candidates are the best combinations of the sentences' own: ranked by the mean of the sentences' scores.
        """
        if self.between == ("", ""):
            return answers[0]
        scores = [[candidate.score for candidate in answer.candidates] for answer in answers]
        combined = [
            [answer.candidates[choice.get(i, 0)] for i, answer in enumerate(answers)]
            for choice in combinations(scores, self.whole.options.n_best)
        ]
        candidates = [
            Candidate(
                self.joined([part.text for part in parts]),
                sum(part.score for part in parts) / len(parts),
                sum(part.log_probability for part in parts),
                [word for part in parts for word in part.ids],
            )
            for parts in combined
        ]
        if not self.whole.explain:
            return Answer(candidates)
        explanations = [answer.explanation for answer in answers if answer.explanation is not None]
        texts = [answer.candidates[0].text for answer in answers]
        before = [len(self.joined(texts[:i])) + len(self.between[i]) for i in range(len(texts))]
        return Answer(candidates, side_by_side(explanations, self.starts, before))


def combinations(scores: Sequence[Sequence[float]], wanted: int) -> list[dict[int, int]]:
    """The best choices of one from each list, best first by their sums; each list is best first. A choice says by
    the list's place what it takes that is not the list's first."""
    # With n wanted, no others than the n lists whose second is the least worse can be chosen from.
    losses = sorted((own[0] - own[1], i) for i, own in enumerate(scores) if len(own) > 1)
    places = [i for _, i in losses[:wanted]]
    first = (0,) * len(places)
    best: list[dict[int, int]] = []
    queue, seen = [(0.0, first)], {first}
    while queue and len(best) < wanted:
        loss, choice = heapq.heappop(queue)
        best.append({i: k for i, k in zip(places, choice, strict=True) if k})
        for at, (i, k) in enumerate(zip(places, choice, strict=True)):
            other = (*choice[:at], k + 1, *choice[at + 1 :])
            if k + 1 < len(scores[i]) and other not in seen:
                seen.add(other)
                heapq.heappush(queue, (loss + scores[i][k] - scores[i][k + 1], other))
    return best


def side_by_side(parts: Sequence[Explanation], sources: Sequence[int], targets: Sequence[int]) -> Explanation:
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
        source=[moved(span, at) for part, at in zip(parts, sources, strict=True) for span in part.source],
        target=[moved(span, at) for part, at in zip(parts, targets, strict=True) for span in part.target],
        matrices=matrices,
        gate=strung([part.gate for part in parts]),
        fertility=strung([part.fertility for part in parts]),
        alignment=alignment,
        sentences=[(len(part.source), len(part.target)) for part in parts],
        sources=parts[0].sources,
        between=parts[0].between,
    )


def moved(span: Span, by: int) -> Span:
    return Span(text=span.text, start=span.start + by, end=span.end + by)


def strung(parts: Sequence[list[float] | None]) -> list[float] | None:
    """Numbers of words, sentence after sentence; None where the model has none."""
    return [number for part in parts for number in part or []] if parts[0] is not None else None


def too_many(sentences: int) -> Problem:
    """More sentences than a request may have."""
    return Problem(
        400, f"the request has more than {sentences} sentences, the most that are taken: ask for fewer at a time"
    )


def check_lines(texts: Sequence[str], sentences: int) -> None:
    """Raises Problem where the lines of the texts are more than the sentences that a request may have, before any work
    is done on them."""
    if fewest_of(texts, sentences) > sentences:
        raise too_many(sentences)


async def split(engine: Engine, reserved: Reserved, wanted: Sequence[tuple[Served, Request]]) -> list[Passage]:
    """Every text in its sentences. Raises Problem for more sentences than a request may have, or have explained; no
    text is split once there are."""
    sentences, explained = engine.settings.sentences, engine.settings.explained
    given = 0

    def passage(one: tuple[Served, Request]) -> Passage:
        nonlocal given
        if given > sentences:
            raise too_many(sentences)
        found = Passage.of(*one)
        given += len(found.sentences)
        return found

    passages = await engine.preparation.each(reserved.caller, passage, wanted, characters_of, SHORT)
    if given > sentences:
        raise too_many(sentences)
    # An explanation says of every word of a text what it makes of every other: it grows with the text's square.
    if sum(len(passage.sentences) ** 2 for passage in passages if passage.whole.explain) > explained**2:
        raise Problem.in_field(
            "explain",
            f"is for texts of up to {explained} sentences, or for more texts of fewer: explain a part at a time",
        )
    return passages


def characters_of(wanted: tuple[Served, Request]) -> int:
    """How long a text is that is to be split."""
    return sum(map(len, wanted[1].texts.values()))


async def answers(
    engine: Engine, reserved: Reserved, passages: Sequence[Passage], follower: Follower | None = None
) -> list[Answer]:
    """Search every sentence, and answer every text. Raises RefusedError with a text's index, and as the engine does."""
    texts = [i for i, passage in enumerate(passages) for _ in passage.sentences]
    wanted = [(passage.model, sentence) for passage in passages for sentence in passage.sentences]
    try:
        found = iter(await engine.answers(wanted, follower, reserved))
    except RefusedError as refused:
        raise RefusedError(texts[refused.index], refused.error) from None
    by_text = [[next(found) for _ in passage.sentences] for passage in passages]

    def put_together() -> list[Answer]:
        return [passage.answer(own) for passage, own in zip(passages, by_text, strict=True)]

    explained = any(passage.whole.explain for passage in passages)
    return await here_or_aside(not explained and len(wanted) <= 10, put_together)
