"""Links of a document's sentences: of the best translation, and carried over to the alternatives."""

import pytest

from interlinear.translation.alignment import carried_links


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ("a dog is running .", [(0, 0), (1, 1), (2, 2), (2, 3), (3, 4)]),
        ("a cat is running .", [(0, 0), (1, 1), (2, 2), (2, 3), (3, 4)]),  # another word in its place
        ("a dog runs .", [(0, 0), (1, 1), (3, 3)]),  # other words, not as many
        ("is running a dog .", [(0, 2), (1, 3), (2, 0), (2, 1), (3, 4)]),  # the same words elsewhere
        ("", []),
    ],
)
def test_links_of_the_best_translation_are_carried_to_another(other, expected):
    links = [(0, 0), (1, 1), (2, 2), (2, 3), (3, 4)]
    assert sorted(carried_links(links, "a dog is running .".split(), other.split())) == expected
