"""Subtitles: a sentence over several cues is one text, and divided among them again; times stay."""

import pytest

from documents.text_formats.cue_lines import LINE_LENGTH, divide, visible_length, wrap
from tests.documents.translations import backwards, same
from tests.documents.translations_of_files import texts, translated

SRT = """1
00:00:01,000 --> 00:00:02,000
Ein <i>Hund läuft
heute</i> durch

2
00:00:02,000 --> 00:00:03,000
den Garten.

3
00:00:04,000 --> 00:00:05,000
- Wer da?
- Ich bin es.
"""
VTT = """WEBVTT Titel da

STYLE
::cue { color: red }

NOTE Notiz da

id eins
00:01.000 --> 00:02.000 align:start
<v Anna>Ein Hund läuft</v>
"""


def test_a_sentence_over_two_cues():
    assert texts(SRT, "a.srt") == ["Ein Hund läuft heute durch den Garten.", "- Wer da?\n- Ich bin es."]
    assert translated(SRT, "a.srt", same).decode() == SRT
    cues = translated(SRT.replace("\n", "\r\n"), "a.srt", backwards).decode().split("\r\n\r\n")
    assert cues[0].endswith("00:00:02,000\r\n. Garten den durch <i>heute läuft</i>")
    assert cues[1].endswith("00:00:03,000\r\n<i>Hund</i> Ein")
    assert cues[2].count("\r\n") == 4


def test_settings_notes_and_voices_of_webvtt_stay():
    assert texts(VTT, "a.vtt") == ["Ein Hund läuft"]
    assert translated(VTT, "a.vtt", backwards).decode() == VTT.replace("Ein Hund läuft", "läuft Hund Ein")


@pytest.mark.parametrize("lengths", [[10, 10], [1, 30], [5, 5, 5], [3, 3, 3, 3, 3, 3]])
def test_every_cue_has_a_share_of_the_words(lengths):
    text = "eins zwei drei vier fünf sechs sieben"
    parts = divide(text, lengths)
    assert " ".join(parts) == text and all(parts)
    shares = [len(part) / len(text) for part in parts]
    assert all(abs(share - length / sum(lengths)) < 0.25 for share, length in zip(shares, lengths, strict=True))


def test_fewer_words_than_cues():
    assert divide("eins", [3, 3]) == ["eins", ""]


def test_long_lines_are_broken_at_words_into_lines_of_similar_length():
    text = "Das <i>ist eine</i> Zeile, die viel zu lang ist, um auf einen Bildschirm zu passen"
    lines = wrap(text).split("\n")
    assert " ".join(lines) == text and len(lines) == 2
    lengths = [visible_length(line) for line in lines]
    assert max(lengths) <= LINE_LENGTH and max(lengths) - min(lengths) < 10
    assert wrap("kurz und gut") == "kurz und gut"
