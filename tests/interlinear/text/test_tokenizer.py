"""Tokenizers: text to ids and back; what is preserved, offsets in the original string, and decoding."""

import os
import pickle
import subprocess
import sys
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from interlinear.errors import BundleError
from interlinear.explanation import to_text_with_words
from interlinear.text import BEGIN, END, PAD, UNKNOWN, TextConfig, Tokenizer, word_spans

GERMAN = [
    "Zwei junge Männer (mit Hut) sind im Freien – in der Nähe vieler Büsche.",
    "Sie sagte: „Der Hund läuft über die Brücke!“",
    "Hat er's gewusst? Schwarz-weiße Hunde, 3.14 und 1.000 Äpfel.",
    "Der Hund schläft, die Katze läuft; der Mann sagt nichts...",
    "Die Männer laufen über die Brücke, und der Hund läuft mit.",
]
# Letters of every kind, and characters known to break tokenizers; the noncharacters are used internally.
TRICKY = (
    " \t\n\u3000aäeéHundß.,-–'’\"„“()▁<>0123\u0308\u0301\u0323İΣςﬁ我能한\u1112\u1161\u11abカが👩🏽"
    "\u200d\u200f\ufeff\ud83d\ude00\0\x1c\x85\ufdd0\ufdd1"
)
TEXTS = st.text(st.one_of(st.characters(exclude_categories=()), st.sampled_from(TRICKY)), max_size=40)


@pytest.fixture(scope="module")
def bpe() -> Tokenizer:
    return Tokenizer.train(GERMAN * 3, TextConfig(units="bpe", vocabulary=400, language="de"))


@pytest.fixture(scope="module")
def unigram() -> Tokenizer:
    return Tokenizer.train(GERMAN * 3, TextConfig(units="unigram", vocabulary=400, language="de"))


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def subwords(request) -> Tokenizer:
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def whole_words() -> Tokenizer:
    return Tokenizer.train(GERMAN, TextConfig(units="words", vocabulary=200, language="de"))


@pytest.fixture(scope="module")
def lower_moses() -> Tokenizer:
    lines = ['ein mann ( mit hut ) sagt : " hallo " .', "the dog does n't run , i know .", "@-@ 's ' , ... ! ? <unk>"]
    config = TextConfig(units="bpe", vocabulary=330, lowercase=True, tokenised=True, language="en", unknown="<unk>")
    return Tokenizer.train(lines, config)


def plain(text: str) -> str:
    """Text after a round trip: NFC, no lone surrogates, no noncharacters."""
    for odd in (*map(chr, range(0xD800, 0xE000)), "\ufdd0", "\ufdd1"):
        text = text.replace(odd, "\ufffd")
    return " ".join(unicodedata.normalize("NFC", text).split())


def parts(text: str, spans: list[tuple[int, int]]) -> list[str]:
    return [text[start:end] for start, end in spans]


def covered(spans: list[tuple[int, int]]) -> set[int]:
    """The positions in spans."""
    return {place for start, end in spans for place in range(start, end)}


def letters(text: str) -> set[int]:
    """The positions of all characters but white space."""
    return {place for place, letter in enumerate(text) if not letter.isspace()}


# What is preserved


def test_special_ids_come_first_and_cannot_be_written_by_text(subwords, whole_words):
    assert (PAD, UNKNOWN, BEGIN, END) == (0, 1, 2, 3)
    tokenised = TextConfig(units="words", vocabulary=50, tokenised=True)
    hostile = "<pad> <unk> <s> </s> <0x41> \ufdd1 \ufdd1end"
    for tokenizer in (subwords, whole_words, Tokenizer.train([hostile] * 3, tokenised)):
        ids = tokenizer.encode(hostile).ids
        assert not {PAD, BEGIN, END} & set(ids)
    for units in ("bpe", "unigram", "words"):
        config = TextConfig(units=units, vocabulary=300, tokenised=True)
        tokenizer = Tokenizer.train([hostile] * 3, config)
        assert tokenizer.decode(tokenizer.encode("<s> </s> <0x41>").ids) == "<s> </s> <0x41>"


@pytest.mark.parametrize("text", GERMAN)
def test_training_text_is_restored_from_words_and_subwords(text, subwords, whole_words):
    assert subwords.decode(subwords.encode(text).ids) == text
    assert whole_words.decode(whole_words.encode(text).ids) == text
    assert UNKNOWN not in whole_words.encode(text).ids


@pytest.mark.parametrize(
    "text",
    [
        "👩‍👩‍👧 🏳️‍🌈",
        "我能赶上去饭店的巴士吗？",
        "שלום עולם",
        "a\x00b\x07c",
        "x▁y ▁ z",
        "<0x41> <s>",
        "ʻŌlelo Ĳssel",
        "“a” 'b' [c]—d/e\\f",
    ],
)
def test_subwords_have_no_unknown_words(text, subwords):
    ids = subwords.encode(text).ids
    assert UNKNOWN not in ids
    assert subwords.decode(ids) == text


@given(TEXTS)
@settings(max_examples=300)
def test_any_text_is_restored_from_subwords_up_to_white_space(subwords, text):
    assert subwords.decode(subwords.encode(text).ids) == plain(text)


@given(TEXTS)
@settings(max_examples=100)
def test_text_of_known_words_is_restored(text):
    tokenizer = Tokenizer.train([text], TextConfig(units="words", vocabulary=100))
    assert tokenizer.decode(tokenizer.encode(text).ids) == plain(text)


def test_a_word_has_the_same_id_in_any_context(whole_words):
    ids = {tuple(whole_words.encode(text).ids)[1] for text in ("(Hund)", "„Hund“", ", Hund ,", "(Hund (")}
    assert len(ids) == 1


def test_whole_words_are_words_without_punctuation(subwords, whole_words):
    known = {line[start:end] for line in GERMAN for start, end in word_spans(line)}
    assert set(whole_words.whole_words) == {word for word in known if word.isalpha()}
    assert {"Hund" if subwords.config.units == "bpe" else "läuft"} <= set(subwords.whole_words)
    assert all(word.isalpha() for word in subwords.whole_words)


def test_a_vocabulary_is_at_most_as_large_as_requested():
    many = [f"wort{i} {chr(0x4E00 + i)}" for i in range(500)]
    for units in ("bpe", "unigram", "words"):
        assert Tokenizer.train(many, TextConfig(units=units, vocabulary=300)).size <= 300
    assert Tokenizer.train(GERMAN, TextConfig(units="words", vocabulary=5)).size == 5
    for units in ("bpe", "unigram"):
        assert Tokenizer.train([], TextConfig(units=units, vocabulary=300)).encode("a").ids


@pytest.mark.parametrize("units", ["bpe", "unigram"])
def test_rare_characters_do_not_displace_subwords(units):
    lines = ["der hund läuft"] * 2000 + [chr(0x4E00 + i) for i in range(300)]
    tokenizer = Tokenizer.train(lines, TextConfig(units=units, vocabulary=400))
    assert len(tokenizer.encode("der hund läuft").ids) == 3
    assert tokenizer.decode(tokenizer.encode("\u4e07").ids) == "\u4e07"


def test_a_word_is_unseen_if_the_vocabulary_lacks_it_or_in_subwords_a_character_of_it(subwords, whole_words):
    text = "Der Hund, Hunds, Łódź, läuft."

    def unseen(tokenizer: Tokenizer) -> list[str]:
        read = to_text_with_words(tokenizer, text, tokenizer.encode(text), raw=True)
        return [read.display_words[i].text for i in read.words_with(tokenizer.unseen_ids)]

    assert unseen(whole_words) == ["Hunds", "Łódź"]
    assert unseen(subwords) == ["Łódź"]


def test_training_is_reproducible_in_another_process(subwords, whole_words, tmp_path):
    script = (
        "import sys, pickle\nfrom interlinear.text import Tokenizer\n"
        "for lines, config in pickle.load(sys.stdin.buffer): print(Tokenizer.train(lines, config).fingerprint())"
    )
    jobs = [(GERMAN * 3, subwords.config), (GERMAN, whole_words.config)]
    environment = {**os.environ, "PYTHONHASHSEED": "77"}
    done = subprocess.run(
        [sys.executable, "-c", script], input=pickle.dumps(jobs), env=environment, capture_output=True, check=True
    )
    assert done.stdout.decode().split() == [subwords.fingerprint(), whole_words.fingerprint()]


# Offsets


@given(TEXTS)
@settings(max_examples=300)
def test_offsets_refer_to_the_original_text_in_order_and_cover_it(subwords, whole_words, text):
    for tokenizer in (subwords, whole_words):
        encoded = tokenizer.encode(text)
        assert len(encoded.ids) == len(encoded.offsets)
        assert all(0 <= start <= end <= len(text) for start, end in encoded.offsets)
        assert all(a[0] <= b[0] and a[1] <= b[1] for a, b in pairwise(encoded.offsets))
        assert covered(encoded.offsets) >= letters(text)


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_offsets_count_characters_of_decomposed_text(form, subwords, whole_words):
    text = unicodedata.normalize(form, "Büsche,  Äpfel über Brücke")
    for tokenizer in (subwords, whole_words):
        encoded = tokenizer.encode(text)
        assert encoded.ids == tokenizer.encode(unicodedata.normalize("NFC", text)).ids
        assert covered(encoded.offsets) == letters(text)
    assert parts(text, whole_words.encode(text).offsets) == [
        unicodedata.normalize(form, word) for word in ("Büsche", ",", "Äpfel", "über", "Brücke")
    ]


def test_offsets_when_lower_casing_lengthens_the_text():
    tokenizer = Tokenizer.train(["istanbul"] * 3, TextConfig(units="words", vocabulary=50, lowercase=True))
    text = "İİ Istanbul"
    assert parts(text, tokenizer.encode(text).offsets) == ["İİ", "Istanbul"]


@given(TEXTS)
@settings(max_examples=200)
def test_decoded_offsets_refer_to_the_decoded_text(subwords, whole_words, text):
    for tokenizer in (subwords, whole_words):
        decoded = tokenizer.decode_with_offsets([BEGIN, *tokenizer.encode(text).ids, END, PAD])
        assert all(0 <= start <= end <= len(decoded.text) for start, end in decoded.offsets)
        assert all(a[0] <= b[0] and a[1] <= b[1] for a, b in pairwise(decoded.offsets))
        assert covered(decoded.offsets) >= letters(decoded.text)


def test_decoded_offsets_cover_the_words(whole_words):
    ids = whole_words.encode("„Der Hund läuft über die Brücke!“").ids
    decoded = whole_words.decode_with_offsets(ids)
    assert parts(decoded.text, decoded.offsets) == ["„", "Der", "Hund", "läuft", "über", "die", "Brücke", "!", "“"]


@given(st.lists(st.integers(0, 399), max_size=30))
@settings(max_examples=200)
def test_any_model_output_decodes_to_one_line(subwords, ids):
    ids = [number for number in ids if number < subwords.size]
    decoded = subwords.decode_with_offsets(ids)
    assert len(decoded.offsets) == len(ids)
    assert len(decoded.text.splitlines()) <= 1
    assert decoded.text == " ".join(decoded.text.split())
    decoded.text.encode()


@given(TEXTS)
@settings(max_examples=200)
def test_words_do_not_overlap_and_cover_all_non_space_characters(text):
    spans = word_spans(text)
    assert all(a[1] <= b[0] for a, b in pairwise(spans))
    assert covered(spans) == letters(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Don't stop – „U-Bahn“, (3.14)!", "Don't|stop|–|„|U-Bahn|“|,|(|3|.|14|)|!"),
        ("'tis rock'n'roll- a--b l’homme", "'|tis|rock'n'roll|-|a|-|-|b|l’homme"),
        ("我能赶上Python 3吗？", "我|能|赶|上|Python|3|吗|？"),
        ("カタカナとラーメン", "カ|タ|カ|ナ|と|ラ|ー|メ|ン"),
        ("👍🏽👩‍👩‍👧!", "👍🏽|👩‍👩‍👧|!"),
        ("u\u0308ber שלום", "u\u0308ber|שלום"),
        ("", ""),
    ],
)
def test_words(text, expected):
    assert "|".join(parts(text, word_spans(text))) == expected


@given(TEXTS)
@settings(max_examples=100)
def test_a_piece_is_part_of_one_word(subwords, text):
    ideographs = {i for start, end in word_spans(text) if end - start == 1 for i in (start,)}
    for start, end in subwords.encode(text).offsets:
        inside = [(a, b) for a, b in word_spans(text) if a < end and start < b]
        assert len(inside) <= 1 or all(a in ideographs for a, _ in inside)


# Tokenised and segmented text


def test_tokenised_text_is_split_at_its_spaces():
    config = TextConfig(units="words", vocabulary=100, tokenised=True, lowercase=True, unknown="<unk>", language="en")
    tokenizer = Tokenizer.train(["the dog 's <unk> bone , don't ( ) ."], config)
    encoded = tokenizer.encode("The dog 's <unk> bone  , cat")
    assert [number == UNKNOWN for number in encoded.ids] == [False, False, False, True, False, False, True]
    assert parts("The dog 's <unk> bone  , cat", encoded.offsets) == ["The", "dog", "'s", "<unk>", "bone", ",", "cat"]
    assert tokenizer.decode(encoded.ids) == "the dog 's <unk> bone , <unk>"
    assert parts("don't, x", tokenizer.word_spans("don't, x")) == ["don't,", "x"]
    assert parts("don't, x", tokenizer.word_spans("don't, x", raw=True)) == ["don't", ",", "x"]


def test_a_model_of_tokenised_text_serves_raw_text(lower_moses):
    text = 'Ein  Mann (mit Hut)\tsagt: "Hallo".'
    encoded = lower_moses.encode(text, raw=True)
    assert encoded.ids == lower_moses.encode('ein mann ( mit hut ) sagt : " hallo " .').ids
    assert covered(encoded.offsets) == letters(text)
    decoded = lower_moses.decode_with_offsets(encoded.ids, raw=True)
    assert decoded.text == 'Ein mann (mit hut) sagt: "hallo".'
    assert covered(decoded.offsets) == letters(decoded.text)
    ids = lower_moses.encode("i know . does n't it ? yes , i 'm @-@ the dog 's ...").ids
    assert lower_moses.decode(ids, raw=True) == "I know. Does n't it? Yes, I'm-the dog's..."


@given(TEXTS)
@settings(max_examples=200)
def test_raw_text_for_a_tokenised_model_never_fails(lower_moses, text):
    encoded = lower_moses.encode(text, raw=True)
    assert all(0 <= start <= end <= len(text) for start, end in encoded.offsets)
    assert all(a[0] <= b[0] for a, b in pairwise(encoded.offsets))
    decoded = lower_moses.decode_with_offsets(encoded.ids, raw=True)
    assert all(0 <= start <= end <= len(decoded.text) for start, end in decoded.offsets)


@pytest.mark.parametrize("units", ["words", "bpe", "unigram"])
def test_segmented_text(units):
    config = TextConfig(units=units, vocabulary=400, tokenised=True, segmentation="@@", language="en")
    tokenizer = Tokenizer.train(["the re@@ fer@@ ee re@@ fers to the ru@@ le ."] * 3, config)
    text = "the re@@ fer@@ ee ."
    encoded = tokenizer.encode(text)
    assert tokenizer.decode(encoded.ids) == "the referee ."
    assert tokenizer.decode(encoded.ids, raw=True) == "the referee."
    assert parts(text, tokenizer.word_spans(text)) == ["the", "re@@ fer@@ ee", "."]
    if units == "words":
        assert parts(text, encoded.offsets) == ["the", "re@@", "fer@@", "ee", "."]
        raw = "the referee, the rule."
        encoded = tokenizer.encode(raw, raw=True)
        assert parts(raw, encoded.offsets) == ["the", "re", "fer", "ee", ",", "the", "ru", "le", "."]
        assert encoded.ids.count(UNKNOWN) == 1  # the comma


@pytest.mark.parametrize("units", ["words", "bpe", "unigram"])
def test_a_raw_word_of_unsegmented_text_is_one_word(units):
    config = TextConfig(units=units, vocabulary=20 if units == "words" else 300, language="de", tokenised=True)
    tokenizer = Tokenizer.train(["haus tür .", "das haus hat eine tür ."] * 5, config)
    assert tokenizer.encode("Haustür.", raw=True).ids == tokenizer.encode("Haustür .").ids
    assert tokenizer.encode("haustür.", raw=True).ids == tokenizer.encode("haustür .").ids
    assert tokenizer.encode("haustür.", raw=True).ids != tokenizer.encode("haus tür .").ids


@pytest.mark.parametrize("units", ["words", "bpe", "unigram"])
def test_raw_chinese_is_segmented_into_the_models_words(units):
    config = TextConfig(units=units, vocabulary=400, tokenised=True, language="zh")
    tokenizer = Tokenizer.train(["我 能 赶上 去 饭店 的 巴士 吗 ?"] * 5, config)
    encoded = tokenizer.encode("我能赶上巴士吗?", raw=True)
    assert encoded.ids == tokenizer.encode("我 能 赶上 巴士 吗 ?").ids
    assert parts("我能赶上巴士吗?", encoded.offsets) == ["我", "能", "赶上", "巴士", "吗", "?"]
    assert tokenizer.decode(encoded.ids, raw=True) == "我能赶上巴士吗?"


def test_unknown_words_are_replaced_by_position(whole_words):
    ids = whole_words.encode("Der Xyz (Qqq) läuft.").ids
    unknown = [position for position, number in enumerate(ids) if number == UNKNOWN]
    assert len(unknown) == 2
    decoded = whole_words.decode_with_offsets(ids, {unknown[0]: "Xaver", unknown[1]: "Quax"})
    assert decoded.text == "Der Xaver (Quax) läuft."
    assert parts(decoded.text, [decoded.offsets[position] for position in unknown]) == ["Xaver", "Quax"]
    assert whole_words.decode(ids) == "Der <unk> (<unk>) läuft."


def test_invalid_byte_sequences_do_not_raise(subwords):
    euro = subwords.encode("€").ids[-3:]
    assert subwords.decode(euro) == "€"
    assert subwords.decode(euro[:2]) == "\ufffd"
    decoded = subwords.decode_with_offsets([*euro[:2], *subwords.encode("Hund").ids])
    assert decoded.text == "\ufffd Hund"


# The file


def test_a_file_preserves_everything(subwords, whole_words, lower_moses, tmp_path):
    for tokenizer in (subwords, whole_words, lower_moses):
        tokenizer.save(tmp_path / "tokenizer.source.json")
        loaded = Tokenizer.load(tmp_path / "tokenizer.source.json")
        assert loaded.config == tokenizer.config
        assert loaded.fingerprint() == tokenizer.fingerprint()
        assert pickle.loads(pickle.dumps(tokenizer)).fingerprint() == tokenizer.fingerprint()
        for text in GERMAN:
            assert loaded.encode(text) == tokenizer.encode(text)
        assert loaded.ids(GERMAN) == [encoded.ids for encoded in tokenizer.encode_batch(GERMAN)]


def test_the_same_vocabulary_for_another_language(subwords):
    other = subwords.for_language("en")
    assert other.config.language == "en"
    assert other.encode(GERMAN[0]) == subwords.encode(GERMAN[0])


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "is not a tokenizer"),
        ("{}", "is not a tokenizer"),
        ("[1]", "is not a tokenizer"),
        ('{"format": 99}', "has format 99"),
        (
            '{"format":1,"config":{"units":"words","vocabulary":9},"vocabulary":["","","","","a","a"],"merges":[],"scores":[]}',
            "is not",
        ),
        (
            '{"format":1,"config":{"units":"bpe","vocabulary":999},"vocabulary":["","","",""],"merges":[["a","b"]],"scores":[]}',
            "is not",
        ),
    ],
)
def test_a_damaged_file_is_named(content, problem, tmp_path):
    path = tmp_path / "tokenizer.target.json"
    path.write_text(content)
    with pytest.raises(BundleError, match=problem) as error:
        Tokenizer.load(path)
    assert str(path) in str(error.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(BundleError, match=r"tokenizer\.target\.json"):
        Tokenizer.load(tmp_path / "tokenizer.target.json")


def test_invalid_settings_are_refused():
    with pytest.raises(ValidationError, match="256 of them for bytes"):
        TextConfig(units="bpe", vocabulary=200)
    with pytest.raises(ValidationError, match="segmentation: has no effect"):
        TextConfig(units="words", vocabulary=200, segmentation="@@")
    with pytest.raises(ValidationError, match="extra_forbidden"):
        TextConfig(units="words", vocabulary=200, colour="red")
