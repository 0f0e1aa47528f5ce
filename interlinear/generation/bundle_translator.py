"""The translator of a bundle."""

import logging
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from itertools import islice

from interlinear.bundle import load, with_compiled_search
from interlinear.bundle.precision import resolve_precision
from interlinear.components import TRANSLATORS
from interlinear.config import CompileChoice, Precision
from interlinear.errors import UsageError
from interlinear.explanation import Explanation
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import EncodedRequest, Request
from interlinear.generation.target_prefix import decode_beginning
from interlinear.generation.translator import META, Translator, TranslatorFacts, TranslatorReference
from interlinear.images.decode import blank_image
from interlinear.search.captured import COMMON_LENGTHS, CapturedStep, row_counts
from interlinear.search.compiled import compiling, resolve_compile
from interlinear.text import UNKNOWN
from interlinear.text.formatting import is_usually_small

log = logging.getLogger("interlinear.generation")

EXAMPLES = 3  # number of example texts of a model
EXAMPLE_LETTERS = 4  # shortest word used as an example text
EXAMPLE_LENGTH = 8  # tokens of a text in the warm-up


@TRANSLATORS.register("bundle")
def open_bundle(
    reference: TranslatorReference, device: str, precision: Precision, compile_search: CompileChoice
) -> Translator:
    """The translator of a bundle; without weights on the device `META`, which only checks that all files exist and fit.
    A precision other than the default is logged. Raises InterlinearError."""
    if device == META:
        bundle = load(reference.folder, META, shortlist=reference.shortlist)
    else:
        resolved = resolve_precision(precision, device)
        if precision != "fp32":
            log.info("%s is computed in %s on %s", reference.folder, resolved, device)
        compiled = resolve_compile(compile_search, device)
        bundle = load(reference.folder, device, resolved, reference.shortlist)
        bundle = with_compiled_search(bundle) if compiled else bundle
    return BundleTranslator(bundle, reference.slots, max(reference.width, bundle.card.search.beam))


class BundleTranslator(SequenceGenerator):
    """A `Translator` that searches with the model of a bundle."""

    reverse: "BundleTranslator | None"

    @property
    def reference(self) -> TranslatorReference:
        shortlist, weights = self.bundle.shortlist is not None, self.bundle.card.weights_sha256
        return TranslatorReference(self.bundle.folder, self.slots, self.table.width, shortlist, weights)

    @cached_property
    def facts(self) -> TranslatorFacts:
        card, tokenizers = self.bundle.card, self.bundle.tokenizers
        texts = card.model.texts
        words = {name: len({word.casefold() for word in tokenizers[name].whole_words}) for name in texts}
        examples = card.examples
        if texts and not examples:
            name = card.model.first_text
            frequent = (word for word in tokenizers[name].whole_words if len(word) >= EXAMPLE_LETTERS)
            examples = [{name: word} for word in islice(frequent, EXAMPLES)]
        return TranslatorFacts(
            card.task,
            card.languages,
            {name: card.model.images.get(name) for name in card.model.sources},
            card.search,
            card.limits,
            self.bundle.takes_terms,
            card.metrics,
            card.recipe.get("name"),
            card.data.get("name"),
            examples,
            words,
        )

    def with_reverse(self, reverse: Translator, where: str) -> "BundleTranslator":
        if not isinstance(reverse, BundleTranslator):
            raise UsageError(where, "it is of another kind than the model", "name a bundle")
        self.bundle.card.check_opposite(reverse.bundle.card, where)
        return BundleTranslator(self.bundle, self.slots, self.table.width, reverse)

    def empty(self) -> "BundleTranslator":
        return BundleTranslator(self.bundle, self.slots, self.table.width, self.reverse)

    def fits(self, request: Request) -> bool:
        return self.request_encoder.fits(request)

    def count_tokens(self, text: str) -> int:
        return len(self.bundle.tokenizers[self.bundle.card.model.first_text].encode(text).ids)

    def decode_prefix(self, ids: Sequence[int], request: Request) -> str:
        if request.options.replace_unknown and UNKNOWN in ids:
            ids = ids[: ids.index(UNKNOWN)]  # the replacement is not known yet
        raw = "target" not in request.tokenised
        return decode_beginning(self.bundle.tokenizers["target"], ids, request.target_prefix, raw)

    def is_usually_small(self, word: str) -> bool:
        return is_usually_small(word, self.bundle.tokenizers["target"], self.bundle.card.languages.get("target"))

    def warm_up(self, requests: int) -> Explanation:
        """Search an example, which loads everything; returns its explanation.

        A search that is compiled runs with one request and with two: these numbers differ in their compiled steps. A
        captured search takes a step of each common size twice, which captures it. On a CPU each number of requests
        up to `requests` takes a step: oneDNN makes a kernel for each number of rows. Images would take long to encode.
        """
        with compiling() if self.bundle.is_compiled else nullcontext():
            if self.bundle.is_compiled:
                self._search_example(2)
            explanation = self._search_example(1)
            if isinstance(self.bundle.search_step, CapturedStep):
                for rows in row_counts(self.slots):
                    for length in COMMON_LENGTHS:
                        self._take_steps(min(rows, self.slots), length, 2)
            elif self.device.type == "cpu" and not self.bundle.card.model.images:
                for rows in range(2, min(self.slots, requests) + 1):
                    self._take_steps(rows, EXAMPLE_LENGTH, 1)
            return explanation

    def _example(self, explain: bool) -> EncodedRequest:
        model = self.bundle.card.model
        texts = dict.fromkeys(model.texts, "a")  # a text without letters would not be searched
        images = {name: blank_image(grid) for name, grid in model.images.items()}
        return self.encode(Request(texts, self.bundle.card.search, explain=explain, images=images))

    def _take_steps(self, requests: int, length: int, steps: int) -> None:
        """Take `steps` steps with this number of requests, whose texts have a length that counts END."""
        card, example = self.bundle.card, self._example(explain=False)
        words = max(1, length - 1)
        sources = {
            name: replace(text, ids=text.ids[:1] * words, offsets=text.offsets[:1] * words)
            for name, text in example.sources.items()
        }
        limit = min(card.search.output_limit(words), card.limits.target_length)
        row = replace(example, sources=sources, length=length, max_length=limit)
        self.admit([(number, row) for number in range(requests)])
        for _ in range(steps):
            self.step()
        self.cancel(range(requests))

    def _search_example(self, requests: int) -> Explanation:
        example = self._example(explain=True)
        self.admit([(number, example) for number in range(requests)])
        while not (finished := self.step()):
            pass
        (_, answer), *_ = finished
        assert answer.explanation is not None
        return answer.explanation
