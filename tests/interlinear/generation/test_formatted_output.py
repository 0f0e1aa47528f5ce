"""The explanation of an output with other marks at its edges."""

from interlinear.explanation import Doubt, Explanation, TermLocation
from interlinear.generation.formatted_output import explain_formatted
from interlinear.text.formatting import FormattedText
from tests.interlinear.alignment.test_doubts import spans

BEFORE = Explanation(
    source=spans("der Hund läuft"),
    target=spans("- The dog ."),
    matrices={"attention": [[0.1, 0.2, 0.3], [0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.0, 0.1, 0.9]]},
    alignment=[(2, 0), (0, 1), (1, 2), (2, 3)],
    confidence=[0.1, 0.9, 0.8, 0.7],
    doubts=[
        Doubt(reason="low_probability", side="target", word=0),
        Doubt(reason="low_probability", side="target", word=2),
        Doubt(reason="untranslated", side="source", word=2),
    ],
    terms=[TermLocation(source=(4, 8), target=(6, 9))],
)


def test_words_move_and_marks_are_replaced_or_removed():
    # "- The dog ." becomes "the dog,"
    after = explain_formatted(BEFORE, FormattedText("the dog,", 2, 9, 0))
    assert [(word.text, word.start, word.end) for word in after.target] == [("the", 0, 3), ("dog", 4, 7), (",", 7, 8)]
    assert after.matrices["attention"] == BEFORE.matrices["attention"][1:]
    assert after.alignment == [(0, 0), (1, 1), (2, 2)]
    assert after.confidence == [0.9, 0.8, 0.7]
    assert [(doubt.side, doubt.word) for doubt in after.doubts] == [("target", 1), ("source", 2)]
    assert after.terms == [TermLocation(source=(4, 8), target=(4, 7))]


def test_a_new_mark_has_no_weights():
    before = BEFORE.model_copy(
        update={
            "target": spans("The dog"),
            "matrices": {"attention": [[1.0, 0, 0], [0, 1.0, 0]]},
            "alignment": [(0, 0), (1, 1)],
            "confidence": [0.9, 0.8],
            "doubts": None,
            "terms": None,
        }
    )
    after = explain_formatted(before, FormattedText("* The dog!", 0, 7, 2))
    assert [(word.text, word.start) for word in after.target] == [("*", 0), ("The", 2), ("dog", 6), ("!", 9)]
    assert after.matrices["attention"] == [[0.0] * 3, [1.0, 0, 0], [0, 1.0, 0], [0.0] * 3]
    assert after.alignment == [(0, 1), (1, 2)]
    assert after.confidence == [None, 0.9, 0.8, None]
