"""Where the sentences of a text lie: models read one sentence at a time, people write several."""

import re


def sentence_spans(text: str, language: str) -> list[tuple[int, int]]:
    """The sentences of a text, [start, end) in characters, without the white space around them.

    A line's end is a sentence's end: a line is never read on into the next. `language` is an ISO 639 code, by which
    abbreviations are known; without rules of its own a language is split as the languages most like it.
    """
    from sentencex import get_sentence_boundaries  # a library of the Wikimedia Foundation's; not needed to search

    spans = []
    for line in re.finditer(r"[^\n\r\v\f\x85\u2028\u2029]+", text):
        for boundary in get_sentence_boundaries(language.partition("-")[0], line[0]):
            sentence = line[0][boundary["start_index"] : boundary["end_index"]]
            start = line.start() + boundary["start_index"] + len(sentence) - len(sentence.lstrip())
            if sentence := sentence.strip():
                spans.append((start, start + len(sentence)))
    return spans
