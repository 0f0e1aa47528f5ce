"""`interlinear translate`: translates files or stdin line by line."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interlinear.console import FAILED, progress, say
from interlinear.decoding.alignment import load_reverse
from interlinear.decoding.glossary import DoNotTranslate, FindTerms, Glossary, Protect, terms_finder
from interlinear.decoding.input_lines import attach_inputs, read_groups
from interlinear.decoding.search_options import SearchOverrides
from interlinear.decoding.translation import LineOutcome, check_target_prefix, translate_lines
from interlinear.options import (
    CompileSearch,
    Device,
    ImageFolder,
    ImageNames,
    InputFiles,
    Json,
    ModelName,
    MtFile,
    PrecisionName,
    ReverseExplanation,
    TokenisedInput,
    Tracking,
    UseShortlist,
    option_groups,
)
from seq2seq.errors import UsageError

if TYPE_CHECKING:
    from documents import DocumentFile
    from seq2seq.generate import SequenceGenerator
    from seq2seq.search import SearchOptions


@option_groups
def translate(
    model: ModelName,
    files: Annotated[list[Path] | None, InputFiles] = None,
    mt: MtFile = None,
    image_dir: ImageFolder = None,
    images: ImageNames = None,
    search: SearchOverrides = SearchOverrides(),
    tokenised: TokenisedInput = False,
    glossary: Glossary = None,
    do_not_translate: DoNotTranslate = None,
    protect: Protect = True,
    target_prefix: Annotated[
        str | None,
        typer.Option(metavar="TEXT", show_default=False, help="Begin every output with TEXT, and search the rest."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print JSON with attention weights, alignments, confidences, doubts.")
    ] = False,
    reverse: ReverseExplanation = None,
    as_json: Json = False,
    device: Device = "cpu",
    precision: PrecisionName = "fp32",
    compile_search: CompileSearch = "auto",
    use_shortlist: UseShortlist = False,
    tracking: Tracking = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", show_default=False, help="Write FILE as a translated document."),
    ] = None,
) -> int:
    """Translate files, or stdin, to stdout: one line for every line, in order, as soon as it is ready.
    With -o, translate one document, in the format that its suffix says, and write it to a file.

    An empty line stays empty. A line that the model cannot read (too long, or not UTF-8) becomes an empty line, is
    named on stderr, and the exit code is 1 at the end. With --n-best N a line becomes N lines `NUMBER ||| TEXT |||
    SCORE`. Line numbers continue over several files; --mt and the pictures refer to these numbers.

    --glossary and --do-not-translate prescribe how terms are translated; an inflected form of a term is found too, and
    its target is written as given. URLs, placeholders and the like stay as they are. See docs/terms.md.

    With --target-prefix and --n-best, outputs differ in the first word after the prefix.

    With --explain a line is JSON; --reverse adds the links of a model of the opposite direction. See docs/alignment.md.

    With -o the input file is a document: txt, md, markdown, html, htm, srt, vtt, json, po, pot, xlf, xliff, tmx, docx,
    pptx, xlsx, odt, odp, ods or epub. Only its text changes. A sentence that the model cannot read stays, and the exit
    code is 1. See docs/documents.md.
    """
    from interlinear.decoding.document_translation import check_lines, document_to_translate
    from interlinear.decoding.model_loading import load_bundle
    from seq2seq.generate import SequenceGenerator

    if reverse and not explain:
        raise UsageError("--reverse", "it is for explanations", "say --explain too, or leave it out")
    document = None
    if output:
        unused = {
            "--mt": mt,
            "--image-dir": image_dir,
            "--images": images,
            "--n-best": search.n_best,
            "--tokenised": tokenised,
            "--target-prefix": target_prefix is not None,
        }
        document = document_to_translate(files or [], output, unused | {"--explain": explain, "--json": as_json})
    else:
        check_lines(files or [])
    bundle = load_bundle(model, tracking, device, precision, use_shortlist, compile_search)
    options = search.apply_to(bundle)
    find_terms = terms_finder(bundle, glossary, do_not_translate, protect, tokenised)
    if target_prefix is not None:
        check_target_prefix(bundle, tokenised)
    backward = load_reverse(reverse, bundle.card, device, tracking, precision) if reverse else None
    generation = SequenceGenerator(bundle, width=options.beam, reverse=backward)
    if document and output:
        return write_translation(generation, document, options, output, find_terms)
    failed = 0
    groups = attach_inputs(read_groups(files or []), bundle.card.model, mt, image_dir, images)
    tokenised_fields = frozenset({*bundle.card.model.texts, "target"}) if tokenised else frozenset[str]()
    outcomes = translate_lines(generation, groups, options, explain, tokenised_fields, find_terms, target_prefix)
    for outcome in outcomes:
        if outcome.problem:
            failed += 1
            say(f"{outcome.line.where}: {outcome.problem} The line stays empty.")
        print(as_record(outcome) if as_json or explain else as_text(outcome, numbered=search.n_best is not None))
        sys.stdout.flush()
    return FAILED if failed else 0


def write_translation(
    generation: "SequenceGenerator",
    document: "DocumentFile",
    options: "SearchOptions",
    output: Path,
    find_terms: FindTerms | None,
) -> int:
    """Translate a document and write it; returns the exit code."""
    from interlinear.decoding.document_translation import translate_document, write_at_once

    if (task := generation.bundle.card.task) != "translation":
        raise UsageError("--output", f"documents are translated, and this is a model for {task}", "name another model")
    translated = translate_document(
        generation, document, options, lambda answers, total: progress(answers, "translating", total), find_terms
    )
    write_at_once(output, translated.content)
    for sentence, problem in translated.problems.items():
        say(f"{sentence[:60]!r}: {problem}. The sentence stays.")
    return FAILED if translated.problems else 0


def as_text(outcome: LineOutcome, numbered: bool) -> str:
    """The outcome as plain text; `numbered` adds line numbers and scores, for n-best lists."""
    candidates = outcome.answer.candidates if outcome.answer else []
    if not numbered:
        return candidates[0].text if candidates else ""
    if not candidates:
        return f"{outcome.line.number} |||  ||| 0"
    return "\n".join(f"{outcome.line.number} ||| {c.text} ||| {c.score:.4f}" for c in candidates)


def as_record(outcome: LineOutcome) -> str:
    """The outcome as one line of JSON."""
    import json

    record: dict[str, object] = {"line": outcome.line.number, "source": outcome.line.text, **outcome.line.extra_texts}
    record["translations"] = [
        {"text": c.text, "score": c.score, "log_probability": c.log_probability}
        for c in (outcome.answer.candidates if outcome.answer else [])
    ]
    if outcome.answer and outcome.answer.explanation:
        record["explanation"] = outcome.answer.explanation.model_dump()
    if outcome.problem:
        record["problem"] = outcome.problem
    return json.dumps(record, ensure_ascii=False)
