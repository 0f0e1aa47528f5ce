"""Adapts models to the sentence pairs that they are to align."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from interlinear.alignment.hmm import align_corpus
from interlinear.alignment.links import Link
from interlinear.alignment.pair_batches import normalize_words
from interlinear.bundle import Bundle, write_bundle
from interlinear.cli.console import say
from interlinear.cli.decoding.alignment import Aligner, SentencePair, UnknownWords, length_problem
from interlinear.cli.progress import LiveLine, format_duration
from interlinear.errors import UsageError
from interlinear.explanation import TextWithWords
from interlinear.generation.generator import SequenceGenerator
from interlinear.models.model import Model
from interlinear.models.protocol import EncoderDecoder
from training.adaptation import AdaptationPair, adapt
from training.data.guide.piece_links import piece_links, word_ranges

SEED = 1  # seed of the order of the pairs


def check_adaptable(name: str, bundle: Bundle[EncoderDecoder]) -> None:
    """Raises UsageError for a model that cannot be trained on pairs of texts."""
    if not isinstance(bundle.model, Model):
        raise UsageError("--adapt", f"{name} is an ensemble", "name one model")
    if bundle.card.model.images:
        raise UsageError("--adapt", f"{name} reads pictures, and the pairs have none", "name a model of texts")
    if len(bundle.card.model.texts) > 1:
        texts = ", ".join(bundle.card.model.texts)
        raise UsageError("--adapt", f"{name} reads several texts ({texts})", "name a model of one text")
    if bundle.card.recipe.get("target", {}).get("operations_on"):
        raise UsageError("--adapt", f"{name} writes edit operations", "name a model that writes text")


def adapt_models(aligner: Aligner, names: Sequence[str], pairs: Sequence[SentencePair], save: Path | None) -> Aligner:
    """The aligner with its models trained on the pairs, guided by the links of an HMM aligner that learns from them.

    Pairs with an empty side, or that a model cannot align, are left out. With `save` the models are kept: MODEL in this
    folder, the model of --reverse in the folder with `-reverse` appended to its name. Raises UsageError for models that
    cannot be adapted, or if no pair is left.
    """
    generations = [generation for generation in (aligner.forward, aligner.backward) if generation]
    for name, generation in zip(names, generations, strict=True):
        check_adaptable(name, generation.bundle)
    usable = [pair for pair in pairs if pair.source.strip() and pair.target.strip() and not long_side(aligner, pair)]
    if not usable:
        raise UsageError("--adapt", "no pair has two sides that the model can read", "give pairs to learn from")
    texts = [(pair.source, pair.target) for pair in usable]
    links = learned_links(aligner.forward, texts, aligner.raw)
    adapted = []
    for number, generation in enumerate(generations):
        exchanged = number == 1
        own_texts = [(target, source) for source, target in texts] if exchanged else texts
        own_links = [[(i, j) for j, i in one] for one in links] if exchanged else links
        bundle = adapt_bundle(names[number], generation, own_texts, own_links, aligner.raw)
        if save:
            keep(save.with_name(f"{save.name}-reverse") if exchanged else save, bundle, len(texts))
        adapted.append(SequenceGenerator(bundle, width=generation.table.width))
    return replace(aligner, forward=adapted[0], backward=adapted[1] if len(adapted) > 1 else None)


def long_side(aligner: Aligner, pair: SentencePair) -> str:
    """Which side is too long for a model; unknown words are only counted when the pair is aligned."""
    return length_problem(replace(aligner, unknown=UnknownWords()), pair)


def read_pair_texts(
    generation: SequenceGenerator, texts: Sequence[tuple[str, str]], raw: bool
) -> Iterator[tuple[TextWithWords, TextWithWords]]:
    """The encoded texts of every pair, with their words."""
    sources, targets = zip(*texts, strict=True)
    name = generation.bundle.card.model.first_text
    return zip(generation.read_texts(name, sources, raw), generation.read_texts("target", targets, raw), strict=True)


def learned_links(generation: SequenceGenerator, texts: Sequence[tuple[str, str]], raw: bool) -> list[list[Link]]:
    """The links of the pairs' words, as the model counts them, by an HMM aligner that learns from these pairs."""
    words = [
        (
            normalize_words(word.text for word in source.display_words),
            normalize_words(word.text for word in target.display_words),
        )
        for source, target in read_pair_texts(generation, texts, raw)
    ]
    line = LiveLine()
    links = align_corpus(
        words, lambda done, of: line.show(f"learning links of {len(words):,} pairs: pass {done} of {of}")
    )
    line.clear()
    return links


def adapt_bundle(
    name: str,
    generation: SequenceGenerator,
    texts: Sequence[tuple[str, str]],
    links: Sequence[Sequence[Link]],
    raw: bool,
) -> Bundle[EncoderDecoder]:
    """The generator's bundle, whose model has been trained on the pairs; progress is shown on stderr."""
    pairs = [
        AdaptationPair(
            source.encoded.ids,
            target.encoded.ids,
            piece_links(
                word_ranges(source.encoded.offsets, source.words),
                word_ranges(target.encoded.offsets, target.words),
                linked,
            ),
        )
        for (source, target), linked in zip(read_pair_texts(generation, texts, raw), links, strict=True)
    ]
    model = generation.bundle.model
    assert isinstance(model, Model)
    line, begun = LiveLine(), time.monotonic()

    def show(done: int, updates: int) -> None:
        remaining = (time.monotonic() - begun) / done * (updates - done)
        line.show(
            f"adapting {name} to {len(pairs):,} pairs: update {done:,} of {updates:,}  ETA {format_duration(remaining)}"
        )

    adapt(model, pairs, SEED, show)
    line.clear()
    return generation.bundle


def keep(folder: Path, bundle: Bundle[EncoderDecoder], pairs: int) -> None:
    """Write the adapted model as a bundle. Its card has no scores: the original model's scores do not apply to it."""
    assert isinstance(bundle.model, Model)
    data = bundle.card.data | {"adapted": {"pairs": pairs, "seed": SEED}}
    write_bundle(folder, bundle.model, bundle.tokenizers, bundle.card.model_copy(update={"data": data, "metrics": {}}))
    say(f"the adapted model is kept in {folder}")
