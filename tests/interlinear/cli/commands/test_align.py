"""`interlinear align`: every kind of attention, one direction and two, as links and as JSON."""

import json
import random
import shutil
from pathlib import Path

import pytest
import torch

import interlinear
from interlinear import cli
from interlinear.alignment.links import Symmetrization, symmetrize
from interlinear.batch import collate
from interlinear.models.recurrent.step_orders import ConditionalDecoder
from interlinear.text import BEGIN
from tests.interlinear.cli.conftest import ENGLISH, GERMAN, write_toy
from training.data.dataset import open_dataset, read_rows

Link = tuple[int, int]


@pytest.fixture
def texts(parallel: tuple[Path, Path]) -> list[str]:
    source, target = parallel
    return ["--source", str(source), "--target", str(target)]


def links_of(line: str) -> list[Link]:
    return [(int(i), int(j)) for i, j in (link.split("-") for link in line.split())]


def aligned(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[list[Link]]:
    assert cli.run(["align", *arguments]) == 0
    return [links_of(line) for line in capsys.readouterr().out.splitlines()]


def test_align_writes_pharaoh_lines(toy, tmp_path, run):
    source, target = tmp_path / "s", tmp_path / "t"
    source.write_text("ein hund läuft .\n\nder mann\n" + "hund " * 13 + "\nein hund\n")
    target.write_text("a dog runs .\na\nthe man\na dog\na dog\n")
    out, said = run.both("align", toy, "--source", source, "--target", target, code=1)
    rows = [[tuple(map(int, link.split("-"))) for link in line.split()] for line in out.split("\n")]
    assert [bool(row) for row in rows] == [True, False, True, False, True, False]
    assert sorted(j for _, j in rows[0]) == [0, 1, 2, 3] and all(0 <= i < 4 for i, _ in rows[0])
    assert "line 4: the source has 13 tokens" in said
    target.write_text("a dog runs .\n")
    assert f"{target} ends after line 1" in run.err(1, "align", toy, "--source", source, "--target", target)


def test_json_has_words_with_offsets_and_a_weight_for_every_link(toy, parallel, texts, run, capsys):
    source, target = (path.read_text(encoding="utf-8").splitlines() for path in parallel)
    pharaoh = aligned(capsys, str(toy), *texts)
    records = [json.loads(line) for line in run.lines("align", toy, *texts, "--json")]
    for number, record in enumerate(records):
        assert record["line"] == number + 1
        for side, lines in (("source", source), ("target", target)):
            assert [word["text"] for word in record[side]] == lines[number].split()
            assert all(lines[number][word["start"] : word["end"]] == word["text"] for word in record[side])
        assert [(link["source"], link["target"]) for link in record["links"]] == pharaoh[number]
        assert all(0 < link["weight"] <= 1 and "reverse_weight" not in link for link in record["links"])


def test_a_file_that_is_not_utf8_is_refused_with_a_command_to_convert_it(toy, texts, tmp_path, run):
    for encoding, named in (("latin-1", "LATIN1"), ("utf-16-le", "UTF-16LE")):
        (tmp_path / "odd").write_bytes("ein Café\n".encode(encoding))
        said = run.err(1, "align", toy, "--source", tmp_path / "odd", *texts[2:])
        assert f"{tmp_path / 'odd'}, line 1: is not valid UTF-8" in said
        assert said.endswith(f" Convert it: `iconv -f {named} -t UTF-8 < {tmp_path / 'odd'} > NEW`.\n")


def test_an_invalid_line_is_reported_in_json(toy, tmp_path, run):
    source, target = tmp_path / "s", tmp_path / "t"
    source.write_text("hund " * 13 + "\nein hund\n")
    target.write_text("a dog\na dog\n")
    first, second = (
        json.loads(line) for line in run.lines("align", toy, "--source", source, "--target", target, "--json", code=1)
    )
    assert (first["links"], "13 tokens" in first["problem"]) == ([], True)
    assert second["links"] and "problem" not in second


@pytest.mark.parametrize("how", ["intersection", "union", "grow-diag-final-and"])
def test_two_directions_are_symmetrized(how: Symmetrization, toy, back_toy, parallel, texts, tmp_path, run, capsys):
    source, target = map(str, parallel)
    forward = aligned(capsys, str(toy), *texts)
    backward = aligned(capsys, str(back_toy), "--source", target, "--target", source)
    both = aligned(capsys, str(toy), *texts, "--reverse", str(back_toy), "--symmetrize", how)
    expected = [
        symmetrize(there, [(i, j) for j, i in back], how) for there, back in zip(forward, backward, strict=True)
    ]
    assert both == expected and both != forward
    lines = run.lines("align", toy, *texts, "--reverse", back_toy, "--symmetrize", how, "--json")
    weights = [link["reverse_weight"] for line in lines for link in json.loads(line)["links"]]
    assert weights and 0 < min(weights) <= max(weights) <= 1
    parallel[0].write_text("ein hund\n")
    parallel[1].write_text("a dog\n")
    card = json.loads((back_toy / "model.json").read_text())
    short = shutil.copytree(back_toy, tmp_path / "short")
    edited = card | {"limits": {"source_length": 1, "target_length": 9}}
    (short / "model.json").write_text(json.dumps(edited | {"content_sha256": ""}))
    said = run.err(1, "align", toy, *texts, "--reverse", short, "--symmetrize", how)
    assert "line 1: read by the reverse model, the source has 2 tokens" in said


def test_conflicting_options_are_refused(toy, other_toy, back_toy, gated_toy, texts, run):
    for options, said in [
        (["--symmetrize", "union"], "--reverse"),
        (["--reverse", str(back_toy)], "it is not said how two alignments become one. Say it, as --symmetrize"),
        (["--reverse", str(other_toy), "--symmetrize", "union"], "it goes from de to en, and MODEL from de to en"),
        (["--by", "gated"], f"{toy}: the model has no attention of kind gated. It has attention, next, posterior."),
        (["--by", "uam-vocabulary"], "It has attention, next, posterior."),
        (
            ["--by", "next-gated"],
            f"{toy}: the model has no attention of kind next-gated. It has attention, next, posterior.",
        ),
        (["--symmetrize", "both"], "Invalid value for '--symmetrize': 'both' is not one of 'intersection',"),
    ]:
        assert said in run.err(2, "align", toy, *texts, *options)
    both = ["--reverse", str(back_toy), "--symmetrize", "union", "--by", "gated"]
    assert f"{back_toy}: the model has no attention of kind gated" in run.err(2, "align", gated_toy, *texts, *both)


def links_of_the_next_step(bundle: Path, by: str, source: str, target: str) -> list[Link]:
    """Word l links to the argmax of the weights at step l + 1, whose input it is; one step after another."""
    loaded = interlinear.load(bundle)
    x, y = loaded.tokenizers["source"].encode(source).ids, loaded.tokenizers["target"].encode(target).ids
    assert len(x) == len(source.split()) and len(y) == len(target.split())
    kind = {"next": "attention", "next-words": "word_attention", "next-gated": "gated"}[by]
    links = []
    with torch.inference_mode():
        memory = loaded.model.encode(collate({"source": [x]}))
        state = loaded.model.start(memory)
        for step, token in enumerate([BEGIN, *y]):
            state, _, attention_weights = loaded.model.step(memory, state, torch.tensor([[token]]))
            weights = attention_weights.matrices("source")[kind][0, 0, : len(x)].tolist()
            if step > 0:  # `token` is word number step - 1
                links.append((weights.index(max(weights)), step - 1))
    return sorted(links)


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Models of both directions with contextual gates whose attention is far from uniform."""
    folder = tmp_path_factory.mktemp("decided")
    keys = {"word_attention": True, "contextual_gates": True, "decoder": "conditional"}
    keys |= {"initialization": "uniform", "initialization_scale": 1.0}
    return write_toy(folder / "there", seed=11, **keys), write_toy(folder / "back", seed=12, back=True, **keys)


@pytest.fixture
def distinct(tmp_path: Path) -> list[tuple[str, str]]:
    """Ten pairs without repeated words (which word attention cannot tell apart), of different lengths."""
    draw = random.Random(8)
    lengths = [(draw.randint(1, 8), draw.randint(1, 8)) for _ in range(10)]
    return [(" ".join(draw.sample(GERMAN, i)), " ".join(draw.sample(ENGLISH, j))) for i, j in lengths]


def files_of(pairs: list[tuple[str, str]], folder: Path) -> list[str]:
    source, target = folder / "s", folder / "t"
    source.write_text("".join(f"{text}\n" for text, _ in pairs), encoding="utf-8")
    target.write_text("".join(f"{text}\n" for _, text in pairs), encoding="utf-8")
    return ["--source", str(source), "--target", str(target)]


@pytest.mark.parametrize("by", ["next", "next-words", "next-gated"])
def test_a_word_is_aligned_by_the_step_that_reads_it(by: str, decided, distinct, tmp_path, capsys):
    there, _ = decided
    files = files_of(distinct, tmp_path)
    expected = [links_of_the_next_step(there, by, source, target) for source, target in distinct]
    assert aligned(capsys, str(there), *files, "--by", by) == expected
    at_output = {"next": "attention", "next-words": "words", "next-gated": "gated"}[by]
    assert aligned(capsys, str(there), *files, "--by", at_output) != expected


def test_without_by_the_best_reading_of_each_model_is_used(decided, distinct, tmp_path, capsys, monkeypatch):
    """One line chooses it: also where the two directions are models of different orders of a step."""
    there, back = decided
    bahdanau = write_toy(tmp_path / "bahdanau", seed=13, back=True, initialization="uniform", initialization_scale=1.0)
    files = files_of(distinct, tmp_path)
    posterior = aligned(capsys, str(there), *files)
    assert posterior == aligned(capsys, str(there), *files, "--by", "posterior")
    monkeypatch.setattr(ConditionalDecoder, "best_readings", ("next-gated", "next"))
    later = aligned(capsys, str(there), *files)
    assert later == aligned(capsys, str(there), *files, "--by", "next-gated") != posterior
    assert aligned(capsys, str(back), *files_of([(t, s) for s, t in distinct], tmp_path)) == [
        links_of_the_next_step(back, "next-gated", target, source) for source, target in distinct
    ]
    options = [*files_of(distinct, tmp_path), "--reverse", str(bahdanau), "--symmetrize", "union"]
    both = aligned(capsys, str(there), *options)
    files = files_of([(t, s) for s, t in distinct], tmp_path)
    reverse = [[(i, j) for j, i in links] for links in aligned(capsys, str(bahdanau), *files, "--by", "posterior")]
    assert both == [symmetrize(*pair, "union") for pair in zip(later, reverse, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["intersection", "union", "grow-diag-final-and"])
def test_two_directions_by_the_next_step(how: Symmetrization, decided, distinct, tmp_path, capsys):
    there, back = decided
    expected = []
    for source, target in distinct:
        backward = [(i, j) for j, i in links_of_the_next_step(back, "next", target, source)]
        expected.append(symmetrize(links_of_the_next_step(there, "next", source, target), backward, how))
    options = [*files_of(distinct, tmp_path), "--by", "next", "--reverse", str(back), "--symmetrize", how]
    assert aligned(capsys, str(there), *options) == expected


@pytest.mark.parametrize("by", ["uam", "uam-vocabulary"])
def test_the_alignment_module_links_the_most_probable_token(by: str, uam_toy, tmp_path, run):
    source, target = tmp_path / "s", tmp_path / "t"
    source.write_text("ein hund ein hund läuft .\n" + "ein hund läuft . die katze schläft im garten und der mann\n" * 2)
    target.write_text("a dog and a dog runs .\nthe cat the cat sleeps\na garden\n")
    bundle = interlinear.load(uam_toy)
    expected, missing = [], 0
    for read, written in zip(
        *(path.read_text(encoding="utf-8").splitlines() for path in (source, target)), strict=True
    ):
        x, y = bundle.tokenizers["source"].encode(read).ids, bundle.tokenizers["target"].encode(written).ids
        batch = collate({"source": [x]}, [y])
        with torch.inference_mode():
            readouts, attention_weights = bundle.model.unroll(bundle.model.encode(batch), batch.target_BL[:, None])
            q = bundle.model.source_log_probabilities(readouts)[0, 0].tolist()
        links = []
        for j in range(len(y)):
            word = max(x if by == "uam" else range(len(q[j])), key=lambda token: q[j][token])
            places = [i for i, token in enumerate(x) if token == word]
            links += [(max(places, key=attention_weights.attention[0, 0, j].tolist().__getitem__), j)] if places else []
            missing += not places
        expected.append(sorted(links))
    out, said = run.both("align", uam_toy, "--source", source, "--target", target, "--by", by)
    assert [links_of(line) for line in out.splitlines()] == expected
    if by == "uam":
        assert not missing and "no link" not in said
    else:
        assert 0 < missing < 14
        assert f"{missing} target words have no link: the source does not have the word" in said


def test_tokenised_words_are_split_at_spaces_by_a_model_of_raw_text(toy, tmp_path, run):
    source, target = tmp_path / "s", tmp_path / "t"
    source.write_text("der mann z.b. liest ( das )\n")
    target.write_text("the man does n't read 10,000 books .\n")
    options = ["align", str(toy), "--source", str(source), "--target", str(target), "--json"]
    record = json.loads(run(*options, "--tokenised"))
    for side, path in (("source", source), ("target", target)):
        text = path.read_text().removesuffix("\n")
        assert [word["text"] for word in record[side]] == text.split()
        assert all(text[word["start"] : word["end"]] == word["text"] for word in record[side])
    assert [link["target"] for link in sorted(record["links"], key=lambda link: link["target"])] == list(range(8))
    assert len(json.loads(run(*options))["source"]) == 10  # z . b . are four words of raw text


def write_pairs(folder: Path, pairs: list[tuple[str, str]]) -> list[str]:
    """--source and --target with files of these pairs."""
    arguments = []
    for side, lines in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
        (folder / side).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        arguments += [f"--{side}", str(folder / side)]
    return arguments


def demo_pairs(count: int) -> tuple[list[tuple[str, str]], list[set[Link]]]:
    """Pairs of the demo's world with their gold links."""
    dataset = open_dataset("demo", None)
    rows = list(read_rows(dataset, "test", ("source", "target", "alignment")))[:count]
    gold = [
        {(int(i), int(j)) for i, j in (link.replace("?", "-").split("-") for link in row.texts[2].split())}
        for row in rows
    ]
    return [(row.texts[0], row.texts[1]) for row in rows], gold


def test_pairs_are_aligned_without_a_model(tmp_path, capsys):
    pairs, gold = demo_pairs(400)
    links = aligned(capsys, *write_pairs(tmp_path, pairs))
    hits = sum(len(set(found) & true) for found, true in zip(links, gold, strict=True))
    error = 1 - 2 * hits / (sum(map(len, links)) + sum(map(len, gold)))
    assert error < 0.15


def test_an_aligner_is_kept_and_aligns_other_pairs(tmp_path, run, capsys):
    pairs, gold = demo_pairs(400)
    kept = tmp_path / "aligner"
    aligned(capsys, *write_pairs(tmp_path, pairs), "--save", str(kept))
    one = write_pairs(tmp_path, pairs[:5])
    links = aligned(capsys, str(kept), *one)
    hits = sum(len(set(found) & true) for found, true in zip(links, gold, strict=False))
    assert hits > 0.7 * sum(map(len, gold[:5]))
    assert f"{kept} exists" in run.err(2, "align", *one, "--save", kept)
    assert "an aligner without attention" in run.err(2, "align", kept, *one, "--by", "words")


def test_info_says_what_a_kept_aligner_has_learned_from(tmp_path, run, capsys):
    texts = write_pairs(tmp_path, [("Ein Hund.", "A dog."), ("", "a"), ("Ein Haus.", "A house.")])
    kept = tmp_path / "aligner"
    assert cli.run(["align", *texts, "--save", str(kept)]) == 0
    capsys.readouterr()
    facts = dict(line.split("  ", 1) for line in run.lines("info", kept))
    facts = {name: text.strip() for name, text in facts.items()}
    assert (facts["learned from"], facts["words"], facts["text"]) == ("2 pairs", "source 4, target 4", "raw")
    assert facts["size"].endswith(" MB") and facts["created"].endswith(" UTC")
    record = run.json("info", kept)
    assert (record["pairs"], record["tokenised"], record["words"]) == (2, False, {"source": 4, "target": 4})
    assert "it is a word aligner" in run.err(2, "info", kept, "--set", "model.hidden=8")


def test_json_of_a_learned_alignment_has_both_directions_posteriors(tmp_path, run):
    texts = write_pairs(tmp_path, [("Ein Hund.", "A dog."), ("", "a"), ("Ein Haus.", "A house.")])
    out, said = run.both("align", *texts, "--json", "--symmetrize", "union")
    records = [json.loads(line) for line in out.splitlines()]
    assert [word["text"] for word in records[0]["source"]] == ["Ein", "Hund", "."]
    assert records[1]["links"] == []
    links = [link for record in records for link in record["links"]]
    assert links and all(0 <= link[w] <= 1.001 for link in links for w in ("weight", "reverse_weight"))
    for link in links:
        mean = (link["weight"] + link["reverse_weight"]) / 2
        assert link["symmetrized_weight"] == pytest.approx(mean, abs=1e-4)
    assert "2 pairs are few to learn from" in said


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--by", "attention"], "--by: there is no MODEL"),
        (["--reverse", "x"], "--reverse: there is no MODEL"),
        (["--device", "cuda"], "--device: there is no MODEL"),
    ],
)
def test_options_that_need_a_model_are_refused_without_one(tmp_path, run, options: list[str], problem: str):
    assert problem in run.err(2, "align", *write_pairs(tmp_path, [("a", "b")]), *options)


def test_what_cannot_be_learned_from_is_said(toy, tmp_path, run, capsys):
    assert "no pair has words on both sides" in run.err(2, "align", *write_pairs(tmp_path, [("", "a"), ("b", "")]))
    out, said = run.both("align", *write_pairs(tmp_path, [("a " * 1001, "a"), ("b", "b")]), code=1)
    assert out.splitlines()[0] == "" and "line 1: the source has 1,001 words" in said
    chinese = write_pairs(tmp_path, [("我喜欢吃苹果", "i like apples")])
    aligned(capsys, *chinese)
    assert "line 1: the source is one word" in run.err(0, "align", *chinese, "--tokenised")
    assert (
        "MODEL is not changed" in run.err(2, "align", toy, *chinese, "--save", tmp_path / "new")
        and not (tmp_path / "new").exists()
    )


def word_for_word(count: int) -> tuple[list[tuple[str, str]], list[set[Link]]]:
    """Pairs of the toy models' words, translated one by one, the last two words exchanged; and their links."""
    draw = random.Random(4)
    dictionary = dict(zip(GERMAN[:13], ENGLISH[:13], strict=True))
    pairs, gold = [], []
    for _ in range(count):
        source = draw.sample(sorted(dictionary), draw.randint(3, 7))
        order = [*range(len(source) - 2), len(source) - 1, len(source) - 2]
        pairs.append((" ".join(source), " ".join(dictionary[source[i]] for i in order)))
        gold.append({(i, j) for j, i in enumerate(order)})
    return pairs, gold


def share_right(links: list[list[Link]], gold: list[set[Link]]) -> float:
    return sum(len({*found} & true) for found, true in zip(links, gold, strict=True)) / sum(map(len, gold))


@pytest.mark.slow
def test_a_model_is_adapted_to_the_pairs(toy, back_toy, tmp_path, run):
    pairs, gold = word_for_word(60)
    files = [*write_pairs(tmp_path, [*pairs, ("", "a"), ("hund " * 13, "dog")])]
    before = {path.name: path.read_bytes() for path in toy.iterdir()}
    unadapted = [links_of(line) for line in run.lines("align", toy, *files, code=1)]
    kept = tmp_path / "kept"
    both = ["--reverse", str(back_toy), "--symmetrize", "grow-diag-final-and"]
    out, said = run.both("align", toy, *files, *both, "--adapt", "--save", kept, code=1)
    links = [links_of(line) for line in out.splitlines()]
    assert share_right(links[:60], gold) > 0.8 > 0.5 > share_right(unadapted[:60], gold)
    assert links[60:] == [[], []] and "line 62: the source has 13 tokens" in said
    assert {path.name: path.read_bytes() for path in toy.iterdir()} == before, "MODEL does not change"
    assert run("align", kept, *files, "--reverse", f"{kept}-reverse", *both[2:], code=1) == out
    assert f"{kept} exists" in run.err(2, "align", toy, *files, *both, "--adapt", "--save", kept)
    assert interlinear.load(kept).card.data["adapted"] == {"pairs": 60, "seed": 1}


@pytest.mark.slow
def test_adapting_is_deterministic(tmp_path, capsys):
    toy = write_toy(tmp_path / "toy", seed=1, dropout=0.2)
    files = write_pairs(tmp_path, word_for_word(12)[0])
    weights = []
    for name in ("a", "b"):
        aligned(capsys, str(toy), *files, "--adapt", "--save", str(tmp_path / name))
        weights.append((tmp_path / name / "model.safetensors").read_bytes())
    assert weights[0] == weights[1] != (toy / "model.safetensors").read_bytes()


def test_what_cannot_be_adapted_is_refused(toy, tmp_path, run):
    files = write_pairs(tmp_path, [("ein hund", "a dog")])
    post_editing = write_toy(tmp_path / "postedit", seed=5, combination="concat")
    for model, said in (
        (f"{toy},{toy}", "is an ensemble"),
        (str(post_editing), "reads several texts (source, mt)"),
    ):
        assert said in run.err(2, "align", model, *files, "--adapt")
    assert "--adapt: there is no MODEL" in run.err(2, "align", *files, "--adapt")
    error = run.err(2, "align", toy, *write_pairs(tmp_path, [("", "a")]), "--adapt")
    assert "no pair has two sides that the model can read" in error
