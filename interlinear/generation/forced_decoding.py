"""Forced decoding with one bundle: explains given outputs, and aligns their words with the words of the sources."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor

from interlinear.alignment.doubts import with_doubts
from interlinear.batch import Batch, collate, stack_images
from interlinear.bundle import Bundle
from interlinear.errors import RequestError, UsageError
from interlinear.explanation import (
    Explanation,
    SourceExplanation,
    TextWithWords,
    explain,
    mean_by_word,
    pool_to_target_words,
    pool_to_words,
    round_matrices,
    sum_by_word,
    to_model_text,
    to_text_with_words,
    word_probabilities,
)
from interlinear.images.decode import blank_image
from interlinear.models.attention_reading import AttentionReading, quick_reading
from interlinear.models.attention_weights import AttentionWeights
from interlinear.models.memory import Memory, pad_or_trim
from interlinear.models.model import Model
from interlinear.models.protocol import EncoderDecoder
from interlinear.text import END, PAD, SPECIAL, Encoded
from interlinear.text.edits import encode_script

Item = TypeVar("Item")

NULL = "<null>"  # how figures label the positions that pad a target
TRANSLATIONS = ("translation", "multimodal")  # tasks whose outputs have the full meaning of the first text
WORD_BEGIN = "▁"  # the token that only begins a word


@dataclass(frozen=True)
class NullExplanation:
    """An explanation that continues after the end of the output, and for each of its rows the source words that the
    alignment module predicts from the whole vocabulary."""

    explanation: Explanation
    source_predictions: list[str]


@dataclass(frozen=True)
class ForcedOutput:
    """A given output, as the result of a search: its tokens without END, their log-probability with END, and its
    explanation if it is asked for."""

    ids: list[int]
    log_probability: float
    explanation: Explanation | None = None


TextPair = tuple[dict[str, TextWithWords], TextWithWords]  # texts by source, and an output


class ForcedDecoder:
    """Forces a bundle's model to output given texts, and explains them by its attention weights."""

    def __init__(self, bundle: Bundle[EncoderDecoder], slots: int = 32) -> None:
        """`slots`: number of outputs that are decoded together."""
        self.bundle = bundle
        self.slots = slots
        self.device = next(bundle.model.parameters()).device

    @property
    def attention_kinds(self) -> list[str]:
        """The kinds of attention weights that alignments can be computed from."""
        return self.bundle.model.attention_kinds

    @property
    def best_reading(self) -> AttentionReading:
        """The default reading to align words by."""
        return self.bundle.model.readings[0]

    def align(
        self,
        pairs: Iterable[tuple[dict[str, str], str]],
        raw: bool = True,
        reading: AttentionReading | None = None,
        confidence: bool = False,
    ) -> Iterator[Explanation]:
        """Explain given outputs by forced decoding, in order. A pair is (texts by source, output); images are absent.

        `raw`: the texts are raw; otherwise their words are separated by spaces, and are detokenized for a model that
        was trained on raw text. `reading`: the weights that words are aligned by, of a kind that the model has
        (`attention_kinds`), by default the best. `confidence`: with the probability of each target word, which takes a
        second pass, and with the doubtful words.
        """
        reading = reading or self.best_reading
        for group in batched(pairs, self.slots):
            read = [self.read_pair(texts, target, raw) for texts, target in group]
            attention_weights = self.forced_attention(read, reading)
            logs = self.forced_log_probabilities(read) if confidence else None
            for i, (sources, target) in enumerate(read):
                weights, own = attention_weights.of_sentence(i, 1), logs[i] if logs else None
                yield self.with_doubts(self.explain_output(sources, target, weights, reading, own), sources)

    def with_doubts(self, explanation: Explanation, sources: dict[str, TextWithWords]) -> Explanation:
        """The explanation with its doubtful words. Omitted source words are reported for translations only."""
        name = next((name for name in self.bundle.card.model.texts if name in sources), None)
        unseen = sources[name].words_with(self.bundle.tokenizers[name].unseen_ids) if name else []
        return with_doubts(explanation, self.bundle.card.task in TRANSLATIONS, unseen)

    def forced_attention(self, pairs: Sequence[TextPair], reading: AttentionReading | None = None) -> AttentionWeights:
        """Attention weights (B, 1, L, ...) of a batch of outputs by forced decoding, with the weights that a reading
        needs; images are absent."""
        batch = self._collate_pairs([sources for sources, _ in pairs], [target for _, target in pairs])
        batch = batch.to(self.device)
        assert batch.target_BL is not None
        with torch.inference_mode():
            memory = self.bundle.model.encode(batch)
            return self.bundle.model.forced_attention(memory, batch.target_BL[:, None], reading)

    def force(self, pair: TextPair, explained: bool) -> ForcedOutput:
        """One output by forced decoding, with its explanation if asked for; images are absent."""
        (logs,) = self._forced_log_probabilities([pair])
        if not explained:
            return ForcedOutput(pair[1].encoded.ids, sum(logs))
        weights = self.forced_attention([pair], self.best_reading)
        explanation = self.with_doubts(self.explain_output(*pair, weights, self.best_reading, logs[:-1]), pair[0])
        return ForcedOutput(pair[1].encoded.ids, sum(logs), explanation)

    def forced_log_probabilities(self, pairs: Sequence[TextPair]) -> list[list[float]]:
        """The log-probability of each token of a batch of outputs (END excluded); images are absent."""
        return [logs[:-1] for logs in self._forced_log_probabilities(pairs)]

    def _forced_log_probabilities(self, pairs: Sequence[TextPair]) -> list[list[float]]:
        """The same with END."""
        batch = self._collate_pairs([sources for sources, _ in pairs], [target for _, target in pairs])
        batch = batch.to(self.device)
        assert batch.target_BL is not None
        with torch.inference_mode():
            memory = self.bundle.model.encode(batch)
            rows = forced_log_probabilities(self.bundle.model, memory, batch.target_BL[:, None])[:, 0]
        return [row[: len(target.encoded.ids) + 1] for row, (_, target) in zip(rows.tolist(), pairs, strict=True)]

    def read_pair(self, texts: dict[str, str], target: str, raw: bool = True) -> TextPair:
        """Encode the texts of the sources and an output, and find their words; `raw` as in `align`."""
        names = [name for name in self.bundle.card.model.texts if name in texts]
        sources = {name: self.read_texts(name, [texts[name]], raw)[0] for name in names}
        return sources, self.read_output(texts, target, raw)

    def read_output(self, texts: dict[str, str], target: str, raw: bool = True) -> TextWithWords:
        """Encode an output for these texts, and find its words; `raw` as in `align`."""
        (output,) = self.read_texts("target", [target], raw)
        if edited := self.bundle.tokenizers["target"].config.operations_on:
            output = replace(output, encoded=self._encode_script(texts.get(edited, ""), target, raw))
        return output

    def _encode_script(self, mt: str, target: str, raw: bool) -> Encoded:
        """The edit operations that turn `mt` into the output; `raw` as in `align`."""
        tokenizer = self.bundle.tokenizers["target"]
        return encode_script(tokenizer, to_model_text(tokenizer, mt, raw), to_model_text(tokenizer, target, raw), raw)

    def _collate_pairs(self, sources: Sequence[dict[str, TextWithWords]], targets: Sequence[TextWithWords]) -> Batch:
        """A batch of texts and their outputs, with absent images."""
        config = self.bundle.card.model
        texts = {name: [pair[name].encoded.ids if name in pair else None for pair in sources] for name in config.texts}
        images = {
            name: stack_images([None] * len(sources), blank_image(grid), grid.regions)
            for name, grid in config.images.items()
        }
        return collate(texts, [text.encoded.ids for text in targets], images=images)

    def check_lengths(self, source: str, target: str, raw: bool = True) -> TextWithWords:
        """The encoded target of a pair of texts. Raises RequestError if it is longer than the model reads."""
        name, limits = self.bundle.card.model.first_text, self.bundle.card.limits
        for side, text, limit in ((name, source, limits.source_length), ("target", target, limits.target_length)):
            (read,) = self.read_texts(side, [text], raw)
            if (count := len(read.encoded.ids)) > limit:
                raise RequestError(side, f"has {count} tokens, and the model takes at most {limit}")
        return read

    def read_texts(self, name: str, texts: Sequence[str], raw: bool = True) -> list[TextWithWords]:
        """Encode texts of a source, or of the target, and find their words; `raw` as in `align`."""
        tokenizer = self.bundle.tokenizers[name]
        encoded = tokenizer.encode_batch([to_model_text(tokenizer, text, raw) for text in texts], raw)
        return [to_text_with_words(tokenizer, text, ids, raw) for text, ids in zip(texts, encoded, strict=True)]

    def explain_with_nulls(self, texts: dict[str, str], target: str, raw: bool = True) -> NullExplanation:
        """Explain an output followed by its end symbol and by <null> up to the number of source tokens.

        The source's last column is its end symbol (Kiyono et al. 2018, figures 2 and 3). Raises UsageError for a model
        without alignment module.
        """
        model = self.bundle.model
        if not isinstance(model, Model) or model.alignment is None:
            raise UsageError(NULL, "the model has no alignment module, which this explanation needs", "train uam")
        sources = {name: self.read_texts(name, [text], raw)[0] for name, text in texts.items()}
        (output,) = self.read_texts("target", [target], raw)
        (first, *_) = sources
        steps = len(output.encoded.ids) + 1
        nulls = max(0, len(sources[first].encoded.ids) + 1 - steps)
        batch = self._collate_pairs([sources], [output]).to(self.device)
        assert batch.target_BL is not None
        target_1KL = pad_or_trim(batch.target_BL, 1, steps + nulls, PAD)[:, None]
        with torch.inference_mode():
            memory = model.encode(batch)
            attention_weights = model.forced_attention(memory, target_1KL)
            log_q = model.source_log_probabilities(model.unroll(memory, target_1KL, attention=False).readouts_BKLR)
        assert log_q is not None
        sources[first] = sources[first].append_symbols([SPECIAL[END]])
        output = output.append_symbols([SPECIAL[END]] + [NULL] * nulls)
        predicted_ids = log_q[0, 0].argmax(-1).tolist()
        tokenizer = self.bundle.tokenizers[first]
        source_predictions = []
        for start, end in output.words:
            pieces = [j for j, span in enumerate(output.encoded.offsets) if span[0] < end and start < span[1]]
            ids = list(dict.fromkeys(predicted_ids[j] for j in pieces))
            source_predictions.append(tokenizer.decode(ids) or " ".join(SPECIAL[i] for i in ids))
        return NullExplanation(
            self.explain_output(sources, output, attention_weights, AttentionReading("uam")), source_predictions
        )

    def explain_output(
        self,
        sources: dict[str, TextWithWords],
        output: TextWithWords,
        attention_weights: AttentionWeights,
        reading: AttentionReading,
        log_probabilities: Sequence[float] | None = None,
    ) -> Explanation:
        """Explain one output: weights between words, or between words and an image's regions. `log_probabilities` of
        its tokens: for the confidence of its words."""
        config = self.bundle.card.model
        target_spans = (output.encoded.offsets, output.words)
        name = next((name for name in config.texts if name in sources), None)
        source = TextWithWords([], [], Encoded([], [])) if name is None else sources[name]
        pieces = (source.encoded.offsets, output.encoded.offsets, source.words, output.words)
        matrices = {} if name is None else attention_weights.matrices(name, reading)
        if reading.matrix not in matrices:  # posterior attention, where the first text is absent
            reading = quick_reading(self.bundle.model.readings)
        fertility = None if name is None else attention_weights.fertility.get(name)
        return explain(
            source.display_words,
            output.display_words,
            {kind: pool_to_words(weights[0, 0].cpu(), *pieces) for kind, weights in matrices.items()},
            None if attention_weights.gate is None else mean_by_word(attention_weights.gate[0, 0].cpu(), *target_spans),
            None if fertility is None else sum_by_word(fertility[0].cpu(), source.encoded.offsets, source.words),
            None if name is None else reading,
            self._explain_sources(sources, output, attention_weights, reading) if len(config.sources) > 1 else None,
            {
                key: mean_by_word(weight[0, 0].cpu(), *target_spans)
                for key, weight in attention_weights.source_weights.items()
            }
            or None,
            None if log_probabilities is None else self._word_probabilities(output, log_probabilities),
        )

    def _word_probabilities(self, output: TextWithWords, log_probabilities: Sequence[float]) -> list[float | None]:
        """The probability of each word of an output. A token that only begins a word (`▁`) counts for the word of the
        next token."""
        pieces, spans = self.bundle.tokenizers["target"].pieces, list(output.encoded.offsets)
        for i in reversed(range(len(spans) - 1)):
            if pieces[output.encoded.ids[i]] == WORD_BEGIN:
                spans[i] = spans[i + 1]
        return word_probabilities(log_probabilities, spans, output.words)

    def _explain_sources(
        self,
        sources: dict[str, TextWithWords],
        output: TextWithWords,
        attention_weights: AttentionWeights,
        reading: AttentionReading,
    ) -> dict[str, SourceExplanation]:
        """The attention weights over each source that is present."""
        config = self.bundle.card.model
        explanations = {}
        for name, text in sources.items():
            pieces = (text.encoded.offsets, output.encoded.offsets, text.words, output.words)
            matrices = {
                kind: pool_to_words(weights[0, 0].cpu(), *pieces)
                for kind, weights in attention_weights.matrices(name, reading).items()
            }
            explanations[name] = SourceExplanation(words=text.display_words, matrices=round_matrices(matrices))
        for name, grid in config.images.items():
            weights_LT = attention_weights.weights[name, "attention"][0, 0, :, : grid.regions].cpu()
            if weights_LT.any():
                matrices = {"attention": pool_to_target_words(weights_LT, output.encoded.offsets, output.words)}
                explanations[name] = SourceExplanation(
                    grid=(grid.rows, grid.columns), matrices=round_matrices(matrices)
                )
        return explanations


def forced_log_probabilities(model: EncoderDecoder, memory: Memory, target_BKL: Tensor) -> Tensor:
    """The log-probability of each target token, given the tokens before it, (B, K, L), in at least fp32."""
    readouts_BKLR = model.unroll(memory, target_BKL, attention=False).readouts_BKLR
    # Step by step: the logits of all positions together may not fit into memory.
    steps = zip(readouts_BKLR.unbind(2), target_BKL.unbind(2), strict=True)
    return torch.stack(
        [model.log_probabilities(r_BKR).gather(-1, t_BK[..., None]).squeeze(-1) for r_BKR, t_BK in steps], 2
    )


def batched(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Lists of `size` items; the last one may be shorter."""
    group: list[Item] = []
    for item in items:
        group.append(item)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group
