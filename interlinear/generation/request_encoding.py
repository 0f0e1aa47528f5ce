"""Requests as ids: their sources, terms and target prefix, checked against what the model reads."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from interlinear.bundle import Bundle
from interlinear.errors import RequestError
from interlinear.explanation import find_model_words, to_model_text
from interlinear.generation.request import EncodedRequest, Request
from interlinear.generation.target_prefix import TARGET_PREFIX, encode_prefix
from interlinear.generation.terms import check_terms
from interlinear.generation.terms.placement import encode_with, has_words, is_word, is_wordlike, number_stand_in
from interlinear.generation.terms.term import TERMS, Term
from interlinear.images.decode import check_image_shape
from interlinear.models.protocol import EncoderDecoder
from interlinear.search import Constraint
from interlinear.source_names import MT
from interlinear.text import UNKNOWN, Encoded, Tokenizer
from interlinear.text.casing import Case
from interlinear.text.long_sentences import is_surely_beyond, is_surely_within
from interlinear.text.normalization import MappedText
from interlinear.text.words import is_unspaced


class RequestEncoder:
    """Converts the texts of requests to the ids that a bundle's model reads. Thread-safe."""

    def __init__(self, bundle: Bundle[EncoderDecoder], width: int) -> None:
        """`width`: the largest beam that a request may use."""
        self.bundle = bundle
        self.width = width

    def fits(self, request: Request) -> bool:
        """Whether the first text of a request, and its terms, are within the model's limits."""
        name, limit = self.bundle.card.model.first_text, self.bundle.card.limits.source_length
        if not request.terms and is_surely_beyond(request.texts[name], limit):
            return False
        if not request.terms and is_surely_within(request.texts[name], limit):
            return True
        try:
            self.encode(request)
        except RequestError as error:
            return error.where not in (name, TERMS)  # other errors would occur for a shorter text too
        return True

    def encode(self, request: Request) -> EncodedRequest:
        """Convert a request's texts to ids.

        Raises RequestError for a request without sources, an unknown source, an empty or too long text, an image with
        the wrong shape or dtype, a beam larger than `width`, an image alone if a shortlist limits the words, terms
        that overlap or are empty, or terms and a target prefix that do not fit into an output.
        """
        card = self.bundle.card
        for requested, supported in ((request.texts, card.model.texts), (request.images, card.model.images)):
            if unsupported := set(requested) - set(supported):
                raise RequestError(
                    sorted(unsupported)[0],
                    "the model has no such source",
                    f"it reads {'; '.join(f'{name}: {source}' for name, source in card.model.sources.items())}",
                )
        if request.options.beam > self.width:
            raise RequestError("beam_size", f"{request.options.beam} is more than the {self.width} allowed here")
        for name, image in request.images.items():
            check_image_shape(name, image, card.model.images[name])
        if not request.texts and not request.images:
            (first, *_) = card.model.sources
            problem = "the text is missing" if len(card.model.sources) == 1 else "every source is missing"
            raise RequestError(first, problem, f"give {' or '.join(card.model.sources)}")
        if self.bundle.shortlist and not request.texts:
            raise RequestError(
                card.model.first_text,
                "the text is missing, and a shortlist finds the words of the output by the text",
                "give it, or search without the shortlist",
            )
        if request.is_copied:
            return EncodedRequest(request, {}, length=1, positions=1, max_length=1)
        terms, target = self._check_terms(request), self.bundle.tokenizers["target"]
        aligned = request.target_prefix is None
        if aligned:
            aligned = any(term.plain_number or not has_words(target, term.target) for term in terms)
        else:
            terms = tuple(term for term in terms if not self.translates(term))
        restored, case = self._restored(request)
        sources = {
            name: self._encode_text(name, request, restored, terms if aligned else ())
            if name == card.model.first_text
            else self._encode_text(name, request, MappedText(request.texts[name]))
            for name in card.model.texts
            if name in request.texts
        }
        if not (terms or request.images) and request.target_prefix is None and self._knows_no_word(sources):
            return EncodedRequest(request, {}, length=1, positions=1, max_length=1)
        words = [len(encoded.ids) + 1 for encoded in sources.values()]
        regions = [card.model.images[name].regions for name in request.images]
        limit = request.options.output_limit(max(words) - 1 if words else max(regions))
        positions = [*words, *regions]
        prefix = None
        if request.target_prefix is not None:
            prefix, terms = encode_prefix(request.target_prefix, target, terms, bool(request.tokenised))
        constraints: tuple[Constraint, ...] = ()
        if terms:
            constraints = term_constraints(terms, sources[card.model.first_text], target)
        case = case if prefix is None else None
        lengths = max(positions), sum(positions), limit
        row = EncodedRequest(request, sources, *lengths, constraints, terms, prefix, aligned, case)
        if request.options.max_length is None:
            limit += len(row.required_ids)
        limit = min(limit, card.limits.target_length)
        check_length(row, limit)
        return replace(row, max_length=limit)

    def _check_terms(self, request: Request) -> tuple[Term, ...]:
        """The terms of a request. Raises RequestError."""
        if not request.terms:
            return ()
        if not self.bundle.takes_terms:
            raise RequestError(TERMS, "the model takes none: it edits texts, or reads pictures first", "leave them out")
        if request.tokenised:
            raise RequestError(TERMS, "terms are for raw text, and this is tokenised", "give raw text")
        name = self.bundle.card.model.first_text
        check_terms(request.texts.get(name, ""), request.terms)
        return request.terms

    def translates(self, term: Term) -> bool:
        """Whether a term is a number that the model translates itself: both vocabularies have it as a word."""
        both = self.bundle.tokenizers[self.bundle.card.model.first_text], self.bundle.tokenizers["target"]
        return term.plain_number and all(is_word(tokenizer, term.target) for tokenizer in both)

    def _knows_no_word(self, sources: Mapping[str, Encoded]) -> bool:
        """Whether all words of the only text are unknown: such names are their own translation, and a model of whole
        words would write an unrelated sentence."""
        if len(sources) != 1:
            return False
        ((name, encoded),) = sources.items()
        pieces = self.bundle.tokenizers[name].pieces
        words = [token for token in encoded.ids if any(map(str.isalpha, pieces[token]))]
        return bool(words) and set(words) == {UNKNOWN}

    def _restored(self, request: Request) -> tuple[MappedText, Case | None]:
        """The first text in the case of the training text, and its original case; the unchanged text and None if it is
        tokenised, or if the request has a machine translation to edit."""
        name = self.bundle.card.model.first_text
        text, casing = request.texts.get(name, ""), self.bundle.tokenizers[name].casing
        if casing is None or request.tokenised or MT in request.texts:
            return MappedText(text), None
        return casing.restored(text, [(term.start, term.end) for term in request.terms])

    @cached_property
    def _stand_in(self) -> str | None:
        name = self.bundle.card.model.first_text
        return number_stand_in(self.bundle.tokenizers[name], self.bundle.card.languages.get(name))

    def _encode_text(self, name: str, request: Request, mapped: MappedText, aligned: Sequence[Term] = ()) -> Encoded:
        """Convert one text to the ids that the model reads. A term to align that is not a word and that the model
        cannot read is replaced by a number that it knows. Raises RequestError if it is empty or too long."""
        tokenizer, raw, text = self.bundle.tokenizers[name], name not in request.tokenised, mapped.text
        written = [(term, text[term.start : term.end]) for term in aligned]
        strange = [term for term, own in written if not (is_wordlike(own) or has_words(tokenizer, own))]
        if strange and self._stand_in:
            encoded = encode_with(self._stand_in, tokenizer, text, strange)
        else:
            encoded = tokenizer.encode(to_model_text(tokenizer, text, raw), raw)
        encoded = Encoded(encoded.ids, [mapped.span(*span) for span in encoded.offsets])
        limit = self.bundle.card.limits.source_length
        if not encoded.ids:
            raise RequestError(name, "the text is empty")
        if len(encoded.ids) > limit:
            raise RequestError(
                name,
                f"the text has {len(encoded.ids)} tokens, and the model reads at most {limit}",
                "split it into sentences",
            )
        return encoded

    def source_words(self, row: EncodedRequest) -> tuple[int, ...]:
        """For each token of the first text, the index of its word among the words that have tokens; -1 for no word, and
        for a word that occurs several times. Empty if the first source is an image or absent."""
        name, *_ = self.bundle.card.model.sources
        if name not in row.sources:
            return ()
        tokenizer, raw = self.bundle.tokenizers[name], name not in row.request.tokenised
        text = row.request.texts[name]
        words = find_model_words(tokenizer, text, raw)
        count = Counter(text[start:end].casefold() for start, end in words)
        ends = [end for _, end in words]
        numbers: dict[int, int] = {}
        found = [(bisect_right(ends, start), end) for start, end in row.sources[name].offsets]
        inside = [
            i if i < len(words) and words[i][0] < end and count[text[slice(*words[i])].casefold()] == 1 else None
            for i, end in found
        ]
        return tuple(-1 if i is None else numbers.setdefault(i, len(numbers)) for i in inside)

    def input_words(self, row: EncodedRequest) -> frozenset[int]:
        """The ids without a post-editing penalty: the texts in the target's tokens, which may differ from the source's,
        the tokens that the output must contain, special symbols and edit operations.
        """
        tokenizer, words = self.bundle.tokenizers["target"], set(row.required_ids)
        words.update(range(len(tokenizer.config.reserved)))
        for name, text in row.request.texts.items():
            raw = name not in row.request.tokenised
            words.update(tokenizer.encode(to_model_text(tokenizer, text, raw), raw).ids)
        return frozenset(words)


def check_length(row: EncodedRequest, limit: int) -> None:
    """Raises RequestError for terms and a target prefix with more tokens than an output may have."""
    tokens = len(row.required_ids)
    if tokens <= limit:
        return
    if row.prefix and row.prefix.encoded.ids:
        described = "the prefix and the terms have" if row.constraints else "the prefix has"
        problem = f"{described} {tokens} tokens, and the output may have {limit}"
        raise RequestError(TARGET_PREFIX, problem, "allow a longer output, or give a shorter prefix")
    raise RequestError(
        TERMS,
        f"the terms have {tokens} tokens, and the output may have {limit}",
        "allow a longer output, or name fewer or shorter terms",
    )


WORD_BEGIN = "▁"  # the token that only begins a word


def term_constraints(terms: Sequence[Term], source: Encoded, target: Tokenizer) -> tuple[Constraint, ...]:
    """The constraint of each term; `source`: the encoded text, `target`: the output's tokenizer."""
    encoded = target.encode_batch([term.target for term in terms], raw=True)
    return tuple(
        Constraint(tuple(word_ids(target, term.target, ids.ids) or [UNKNOWN]), source_positions(term, source))
        for term, ids in zip(terms, encoded, strict=True)
    )


def word_ids(tokenizer: Tokenizer, text: str, ids: list[int]) -> list[int]:
    """The ids of a text as words of an output; words of scripts without spaces begin without a space."""
    if len(ids) > 1 and tokenizer.pieces[ids[0]] == WORD_BEGIN and is_unspaced(text.strip()[0]):
        return ids[1:]
    return ids


def source_positions(term: Term, source: Encoded) -> tuple[int, int] | None:
    """The positions [start, end) of the tokens that overlap a term; None if there are none."""
    own = [i for i, (start, end) in enumerate(source.offsets) if start < term.end and term.start < end]
    return (own[0], own[-1] + 1) if own else None
