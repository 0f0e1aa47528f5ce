"""ROUGE equals cases worked out by hand, a transcription of its definition, and outputs of ROUGE-1.5.5."""

import random
from collections import Counter

import pytest

from interlinear.metrics.catalogue import select_metrics
from interlinear.metrics.metric import Preprocessing, ReferenceSet, SystemOutputs
from interlinear.metrics.rouge import stemmed_sentences, stemmed_words
from interlinear.metrics.stemming import porter, stem


def score(name, summaries, *references):
    (metric,) = select_metrics([name], Preprocessing())
    return metric.score(SystemOutputs.from_lines(summaries), ReferenceSet.from_lines(references, "summarization"))


def value(name, summary, *references):
    return score(name, [summary], *([reference] for reference in references)).score


# Worked by hand.


def test_the_example_of_lin_2004():
    """Lin 2004, section 3.1, where S2 shares 3 words in order with S1 and S3 2; here killed is kill, so S2 has all."""
    reference = "police killed the gunman"
    assert value("rouge-l", "police kill the gunman", reference) == 100
    assert value("rouge-l", "the gunman kill police", reference) == 50
    assert value("rouge-1", "the gunman kill police", reference) == 100
    assert value("rouge-2", "the gunman kill police", reference) == pytest.approx(100 / 3, abs=1e-3)


def test_the_union_of_common_subsequences_counts():
    """Lin 2004, section 3.2: of w1-w5, one sentence of the summary has w1 w2, the other w1 w3 w5; together w1 w2 w3 w5.
    Recall is 4/5; of the summary's ten words four match."""
    summary = "w1 w2 w6 w7 w8\nw1 w3 w8 w9 w5"
    recall, precision = 0.8, 0.4
    assert value("rouge-l", summary, "w1 w2 w3 w4 w5") == pytest.approx(100 * round(2 * 0.32 / 1.2, 5))
    assert recall * precision / (0.5 * (recall + precision)) == pytest.approx(2 * 0.32 / 1.2)


def test_counts_of_a_word_are_clipped():
    """the 4 times beside 2 times: 2 matches, 2 in the reference and 4 in the summary: R 1, P 0.5, F 2/3, to five
    digits."""
    assert value("rouge-1", "the the the the", "the the") == pytest.approx(66.667)
    assert value("rouge-2", "the the the the", "the the") == pytest.approx(50)  # 1 of 1 and of 3
    # Every sentence of the reference finds "a" in the summary, which has it once.
    assert value("rouge-l", "a b", "a c\na d") == pytest.approx(100 * round(2 * 0.25 * 0.5 / 0.75, 5))


def test_f1_is_computed_from_rounded_values():
    """R 3/11 = 0.27273, P 0.3: F 0.28572 and not 0.28571 (= 2 x 3/11 x 3/10 / (3/11 + 3/10))."""
    summary = "a b c d e f g h i j"
    assert value("rouge-1", summary, "a b c k l m n o p q r") == pytest.approx(28.572, abs=1e-9)


def test_several_references_are_summed():
    """2 of 2 and 1 of 4 words: R 3/6; the summary's 2 words count twice: P 3/4."""
    assert value("rouge-1", "a b", "a b", "a c d e") == pytest.approx(100 * 2 * 0.5 * 0.75 / 1.25)
    assert value("rouge-1", "a b", "a c d e", "a b") == value("rouge-1", "a b", "a b", "a c d e")


def test_words_are_letters_and_digits():
    assert value("rouge-1", "U.S. 3,000-man Café", "u s 3 000 man caf") == 100
    assert value("rouge-1", "猫 。", "the cat") == 0
    assert value("rouge-1", "", "the cat") == 0


def test_short_words_are_not_stemmed_and_irregular_forms_are_known():
    assert [stem(word) for word in ("has", "was", "cats", "running", "mice", "better", "geese")] == [
        "has", "was", "cat", "run", "mouse", "well", "goose",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("word", "stems"),
    [
        # Porter 1980, the examples of each step.
        ("caresses", "caress"), ("ponies", "poni"), ("cats", "cat"), ("feed", "feed"), ("agreed", "agre"),
        ("plastered", "plaster"), ("bled", "bled"), ("motoring", "motor"), ("sing", "sing"), ("conflated", "conflat"),
        ("troubled", "troubl"), ("sized", "size"), ("hopping", "hop"), ("falling", "fall"), ("hissing", "hiss"),
        ("filing", "file"), ("happy", "happi"), ("relational", "relat"), ("conditional", "condit"),
        ("vietnamization", "vietnam"), ("predication", "predic"), ("feudalism", "feudal"), ("decisiveness", "decis"),
        ("triplicate", "triplic"), ("formative", "form"), ("electrical", "electr"), ("goodness", "good"),
        ("revival", "reviv"), ("adoption", "adopt"), ("communism", "commun"), ("probate", "probat"), ("cease", "ceas"),
        ("controlling", "control"), ("rolling", "roll"), ("yellow", "yellow"), ("say", "sai"),
        # Differences of ROUGE-1.5.5.
        ("agreement", "agreem"), ("archaeology", "archaeolog"), ("possibly", "possibl"),
    ],
)  # fmt: skip
def test_stems_equal_porters_examples(word, stems):
    assert porter(word) == stems


def test_recall_at_75_bytes_truncates_both_sides():
    """75 bytes of "word " x 15 are all of it; later text is ignored. An umlaut has two bytes."""
    reference = "word " * 15 + "dog cat"
    assert score("rouge-1-recall-75", ["word " * 14 + "dog cat"], [reference]).score == pytest.approx(
        100 * round(14 / 15, 5)
    )
    assert stemmed_words("ä" * 36 + " dog cat", 75) == ["do"]
    assert stemmed_words("one two\nthree", 10) == ["one", "two", "thr"]
    assert stemmed_sentences("one two\nthree\nfour", 10) == [
        ["one", "two"],
        ["three"],
        ["four"],
    ]  # each reference is truncated separately
    assert stemmed_sentences("one two\nthree", 7) == [["one", "two"]]


def test_recall_rises_with_length_and_f1_does_not():
    cut, whole = "the dog barks", "the dog barks and then it runs away"
    reference = "the dog barks"
    assert score("rouge-1-recall-75", [whole], [reference]).score == 100
    assert value("rouge-1", whole, reference) < value("rouge-1", cut, reference) == 100


# Comparison with the definition, and with the script.

WORDS = (
    "the The a cat cats sat agreement agreements best better running ran café naïve U.S. it's well-known 3,000 $5 – 猫 "
    "über generalization element police killed killing"
).split()


def corpus(size, seed, references, breaks):
    """Seeded summaries of up to three sentences and their references."""
    draw = random.Random(seed)

    def summary():
        return "\n".join(
            " ".join(draw.choices(WORDS, k=draw.randint(0, 9))) for _ in range(draw.randint(1, 3) if breaks else 1)
        )

    columns = [[summary() for _ in range(size)] for _ in range(1 + references)]
    return columns[0], columns[1:]


def longest(x, y):
    """The length of the longest common subsequence, by its definition."""
    table = [[0] * (len(y) + 1) for _ in range(len(x) + 1)]
    for i, a in enumerate(x, 1):
        for j, b in enumerate(y, 1):
            table[i][j] = table[i - 1][j - 1] + 1 if a == b else max(table[i - 1][j], table[i][j - 1])
    return table[-1][-1]


def f1(matches, wanted, said):
    recall = float(f"{matches / wanted:.5f}") if wanted else 0.0
    precision = float(f"{matches / said:.5f}") if said else 0.0
    if not recall + precision:
        return 0.0
    return float(f"{recall * precision / (0.5 * precision + 0.5 * recall):.5f}")


def grams(words, n):
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def test_a_thousand_pairs_score_as_by_the_definition():
    summaries, (references,) = corpus(1000, 5, 1, breaks=False)
    expected = {"rouge-1": [], "rouge-2": [], "rouge-l": []}
    for summary, reference in zip(summaries, references, strict=True):
        ours, theirs = stemmed_words(summary, None), stemmed_words(reference, None)
        for n, name in ((1, "rouge-1"), (2, "rouge-2")):
            x, y = grams(ours, n), grams(theirs, n)
            matches = sum(min(count, y[gram]) for gram, count in x.items())
            expected[name].append(f1(matches, sum(y.values()), sum(x.values())))
        expected["rouge-l"].append(f1(longest(theirs, ours), len(theirs), len(ours)))
    for name, values in expected.items():
        (metric,) = select_metrics([name], Preprocessing())
        found = metric.statistics(SystemOutputs.from_lines(summaries), ReferenceSet.from_lines([references]))[:, 0]
        assert found.tolist() == values


PRINTED = {
    "rouge-1": (25.388, 24.542, 26.237),
    "rouge-2": (5.215, 4.848, 5.566),
    "rouge-l": (22.463, 21.767, 23.194),
    "rouge-1-recall-75": (27.566, 26.572, 28.646),
    "rouge-2-recall-75": (5.653, 5.191, 6.131),
    "rouge-l-recall-75": (22.591, 21.7, 23.515),
}


@pytest.mark.parametrize(("name", "printed"), PRINTED.items())
def test_a_thousand_pairs_score_as_the_script_scores_them(name, printed):
    """The output of ROUGE-1.5.5 for this corpus with `-n 2 -m -w 1.2` (and `-b 75`): Average_F (Average_R) and its 95 %
    interval, which depends on every one of the thousand scores and their order."""
    summaries, references = corpus(1000, 6, 2, breaks=True)
    found = score(name, summaries, *references)
    assert (found.mean, found.low, found.high) == pytest.approx(printed, abs=1e-9)
    assert found.score == pytest.approx(found.mean, abs=0.05)
    assert found.signature.startswith("nrefs:2|")
