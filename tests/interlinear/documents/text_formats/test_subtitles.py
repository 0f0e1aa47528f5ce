"""Subtitles: a sentence over several cues is one text, and divided among them again; times stay."""

import re
from dataclasses import replace

import pytest

from interlinear.documents import AlignedText
from interlinear.documents.text_formats.subtitles import LINE_LENGTH, divide, visible_length, wrap
from tests.interlinear.documents.translations import backwards, same
from tests.interlinear.documents.translations_of_files import texts, translated

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
TIME = re.compile(r"<[\d:.]+>")


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


CAPTIONS = """WEBVTT

00:00:01.000 --> 00:00:02.500 align:start position:0%
Ein<00:00:01.500><c> Hund</c><00:00:02.000><c> läuft</c>

00:00:02.500 --> 00:00:04.000
Ein Hund läuft
durch<00:03.000><c> den</c><00:03.500><c> Garten.</c>
"""


def test_times_inside_a_cue_stay_in_it_in_their_order():
    """As automatic captions have them for every word."""
    assert texts(CAPTIONS, "a.vtt") == ["Ein Hund läuft", "Ein Hund läuft durch den Garten."]
    assert translated(CAPTIONS, "a.vtt", same).decode() == CAPTIONS
    for translate in (same, backwards, lambda _: AlignedText("ganz anders")):
        cues = translated(CAPTIONS, "a.vtt", translate).decode().split("\n\n")
        assert TIME.findall(cues[1]) == ["<00:00:01.500>", "<00:00:02.000>"]
        assert TIME.findall(cues[2]) == ["<00:03.000>", "<00:03.500>"]
        assert [cue.count("<c>") for cue in cues] == [cue.count("</c>") for cue in cues] == [0, 2, 2]


def test_a_cue_ends_at_the_next_times_where_there_is_no_empty_line():
    for text in (SRT, SRT.replace("\n", "\r\n")):
        line_end = "\r\n" if "\r" in text else "\n"
        close = text.replace(line_end * 2, line_end)
        assert texts(close, "a.srt") == texts(text, "a.srt")
        assert translated(close, "a.srt", same).decode() == close
        written = translated(text, "a.srt", backwards).decode()
        assert translated(close, "a.srt", backwards).decode() == written.replace(line_end * 2, line_end)
    without_numbers = (
        "WEBVTT\n\n00:01.000 --> 00:02.000\nEin Hund.\n00:02.000 --> 00:03.000\n00:03.000 --> 00:04.000\nDa.\n"
    )
    assert texts(without_numbers, "a.vtt") == ["Ein Hund.", "Da."]
    assert translated(without_numbers, "a.vtt", same).decode() == without_numbers


def test_times_without_fractions_of_a_second():
    text = "1\n00:00:01 --> 00:00:02\nEin Hund.\n\n2\n00:00:02 --> 00:00:03,5\nDa.\n"
    assert texts(text, "a.srt") == ["Ein Hund.", "Da."]


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


TIMES = "00:00:01,000 --> 00:00:02,000"


def upper(data: str, name: str) -> str:
    """The file in capital letters, each word of which is linked."""
    return translated(data, name, lambda text: replace(same(text), text=text.upper())).decode()


@pytest.mark.parametrize(
    ("cue", "expected"),
    [
        ("\nDer Hund schläft.", "\nDER HUND SCHLÄFT."),
        ("Der Hund\n\nschläft.", "DER HUND\n\nSCHLÄFT."),
        ("Der Hund.\n \n\nDie Katze.\n", "DER HUND.\n \n\nDIE KATZE.\n"),
        ("- Wer da?\n\n- Ich.", "- WER DA?\n\n- ICH."),
        ("\n\n12\n\nDer Hund", "\n\n12\n\nDER HUND"),
    ],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_text_behind_an_empty_line_in_a_cue_of_subrip_is_translated(cue, expected, line_end):
    text = f"1\n{TIMES}\n{{}}\n\n2\n{TIMES}\nDer Affe.\n".replace("\n", line_end)
    written = upper(text.format(cue.replace("\n", line_end)), "a.srt")
    assert written == text.replace("Der Affe", "DER AFFE").format(expected.replace("\n", line_end))


def test_notes_and_identifiers_behind_an_empty_line_of_webvtt_stay():
    text = (
        "WEBVTT\n\n00:01.000 --> 00:02.000\nder Hund\n\n{}\n\nNOTE eine Notiz\nda\n\nid eins\n"
        "00:02.000 --> 00:03.000\nschläft.\n\nSTYLE\n::cue(b) {{ color: red }}\n"
    )
    expected = text.format("TEXT DA").replace("der Hund", "DER HUND").replace("schläft", "SCHLÄFT")
    assert upper(text.format("Text da"), "a.vtt") == expected


@pytest.mark.parametrize("cue", ["1984", "<i>12:30</i>", "{\\an8}- 3 -", "♪ ♪", "..."])
def test_a_cue_without_letters_stays_and_takes_no_words(cue):
    for before in ("Der Hund schläft.", "der Hund"):
        text = f"1\n{TIMES}\n{before}\n\n2\n{TIMES}\n{cue}\n\n3\n{TIMES}\nDie Katze schläft.\n"
        expected = text.replace(before, before.upper()).replace("Die Katze schläft", "DIE KATZE SCHLÄFT")
        assert upper(text, "a.srt") == expected


@pytest.mark.parametrize("sound", ["[Applaus]", "(Ein Hund bellt)", "<i>[Musik]</i>", "♪ Ein Lied ♪", "*seufzt*"])
def test_a_description_of_a_sound_is_a_text_by_itself(sound):
    text = f"1\n{TIMES}\n{sound}\n\n2\n{TIMES}\nDer Hund schläft.\n"
    assert texts(text, "a.srt") == [re.sub("<.*?>", "", sound), "Der Hund schläft."]
    lines = f"1\n{TIMES}\n{sound}\nDer Hund schläft.\n"
    assert texts(lines, "a.srt") == [f"{re.sub('<.*?>', '', sound)}\nDer Hund schläft."]
    assert translated(lines, "a.srt", same).decode() == lines


@pytest.mark.parametrize(
    "times",
    [
        "0:0:0.0 --> 0:0:3.540",
        "0:0:1.5 --> 0:1:3",
        "00: 00: 01,000 -> 00: 00: 02, 500",
        "00:00:01:12 --> 00:00:02:10",
        "-00:00:01,000 --> 00:00:02,000 X1:10 Y1:20",
        "00:00:03.5400000 --> 100:00:05.0000000",
        "00:00:01,000 –> 00:00:02,000",
    ],
)
def test_times_as_programs_write_them(times):
    text = f"WEBVTT\n\n6e2b-0\n{times}\n<v Anna>{{}}</v>\n"
    assert upper(text.format("Der Hund."), "a.vtt") == text.format("DER HUND.")


@pytest.mark.parametrize(
    "ruby", ["<ruby>{}<rt>wau wau</rt></ruby>", "<ruby>{}<rt>wau</ruby>", "<ruby.loud>{}<rt.x>wau</rt>{}<rt>wau</ruby>"]
)
def test_readings_of_ruby_stay(ruby):
    text = f"WEBVTT\n\n00:01.000 --> 00:02.000\nDer {ruby} da.\n"
    expected = text.replace("Der", "DER").replace("da.", "DA.").format("HUND", " MIAU")
    assert upper(text.format("Hund", " miau"), "a.vtt") == expected


@pytest.mark.parametrize("sounds", [["[Donner]"], ["♪ ♪"], ["[Donner]", "(Ein Hund bellt)"]])
def test_a_sound_in_a_sentence_stays_in_its_place_and_does_not_divide_it(sounds):
    def file(*cues):
        return "\n\n".join(f"{n}\n{TIMES}\n{cue}" for n, cue in enumerate(cues)) + "\n"

    text = file("Der große Hund", *sounds, "schläft im Garten.")
    assert "Der große Hund schläft im Garten." in texts(text, "a.srt")
    assert translated(text, "a.srt", same).decode() == text
    written = translated(text, "a.srt", backwards).decode()
    assert written.startswith(file(". Garten im")) and written.endswith(f"{TIMES}\nschläft Hund große Der\n")
    divided = file("Der Hund.", *sounds, "und da", *sounds, "Die Katze schläft.")
    assert set(texts(divided, "a.srt")) >= {"Der Hund.", "und da", "Die Katze schläft."}


@pytest.mark.parametrize("label", ["MAX:", "MAX MÜLLER:", ">>", "-"])
def test_a_cue_of_another_speaker_is_another_text(label):
    text = f"1\n{TIMES}\nDer Hund\n\n2\n{TIMES}\n{label} die Katze\nda\n"
    assert texts(text, "a.srt")[0] == "Der Hund" and translated(text, "a.srt", same).decode() == text


def test_line_ends_of_substation_alpha_are_line_ends():
    text = f"1\n{TIMES}\n{{\\an8}}Der Hund\\Nschläft.\n"
    assert texts(text, "a.srt") == ["Der Hund\nschläft."] and "DER HUND\\NSCHLÄFT." in upper(text, "a.srt")
