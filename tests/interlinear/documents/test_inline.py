"""Tags of one text: how much of it is read to place them."""

import subprocess
import sys
from collections.abc import Iterator

from interlinear.documents import parse_html
from interlinear.documents.inline import is_edge_inside
from interlinear.documents.placement import split_copied_words


class CountingList(list):
    """A list that counts how many of its items are read."""

    reads = 0

    def __getitem__(self, index):
        self.reads += 1
        return super().__getitem__(index)

    def __iter__(self) -> Iterator:
        for item in super().__iter__():
            self.reads += 1
            yield item


def test_each_sentence_reads_few_of_the_edges():
    text, sentences = "A! " * 1000, [(3 * n, 3 * n + 2) for n in range(1000)]
    edges = CountingList([edge for start, end in sentences for edge in (start, end)])
    assert not any(is_edge_inside(text, edges, start, end) for start, end in sentences)
    assert edges.reads < 30 * len(sentences)
    edges = CountingList(sorted({*edges, 1501}))
    assert [start for start, end in sentences if is_edge_inside(text, edges, start, end)] == [1500]


def test_each_cut_word_reads_few_of_the_links():
    segment = parse_html(f"<p>{'H<sub>2</sub>O ' * 500}").segments[0]
    words = [(4 * n, 4 * n + 3) for n in range(500)]
    links = CountingList((n, n) for n in range(500))
    source, target, cut = split_copied_words(segment.text, segment.text, segment.tags, words, words, links)
    assert len(source) == len(target) == len(cut) == 1500 and links.reads < 10 * len(links)
    links.append((0, 1))  # of which both words are not cut
    assert len(split_copied_words(segment.text, segment.text, segment.tags, words, words, links)[0]) == 1496


def test_a_document_is_read_and_written_without_torch():
    """By the processes of the service, each of which would take seconds and hundreds of megabytes more."""
    program = """
import sys
import service.files.document_worker
from interlinear.documents import AlignedText
from interlinear.documents.files import parse_file

file = parse_file(b"<p>Der <b>Hund</b> da</p>", "a.html")
print(file.render([AlignedText("a dog", [(0, 3), (4, 8)], [(0, 1), (2, 5)], [(0, 0), (1, 1)])]).decode())
print("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "<p>a <b>dog</b></p>\nFalse\n", done.stderr
