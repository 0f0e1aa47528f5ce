"""`interlinear translate`: translates files or stdin line by line."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from interlinear.cli.console import FAILED, say
from interlinear.cli.decoding.search_options import SearchOverrides
from interlinear.cli.options import (
    CompileSearch,
    Device,
    ImageFolder,
    InputFiles,
    Json,
    ModelName,
    MtFile,
    PrecisionName,
    Tracking,
    UseShortlist,
)
from interlinear.errors import UsageError
from interlinear.text.sentences import SplitMode


def translate(
    model: ModelName,
    files: Annotated[list[Path] | None, InputFiles] = None,
    mt: MtFile = None,
    image_dir: ImageFolder = None,
    search: SearchOverrides = SearchOverrides(),
    tokenised: Annotated[
        bool, typer.Option("--tokenised", help="Input and output words are separated by spaces.")
    ] = False,
    glossary: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            exists=True,
            dir_okay=False,
            help="How terms are translated: a .tsv or .csv with a source and a target on each line.",
        ),
    ] = None,
    do_not_translate: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", show_default=False, help="What stays as it is; may be given several times."),
    ] = None,
    protect: Annotated[
        bool,
        typer.Option(
            "--protect/--no-protect",
            help="Keep URLs, e-mail addresses, placeholders, inline tags, emoji, and numbers with units as they are.",
        ),
    ] = True,
    target_prefix: Annotated[
        str | None,
        typer.Option(metavar="TEXT", show_default=False, help="Begin every output with TEXT, and search the rest."),
    ] = None,
    split_sentences: Annotated[
        SplitMode | None,
        typer.Option(
            metavar="0|1|nonewlines",
            show_default=False,
            help="Split texts into sentences: not, also at line breaks, at marks only. Default: 0, with -o 1.",
        ),
    ] = None,
    preserve_formatting: Annotated[
        bool,
        typer.Option("--preserve-formatting", help="Outputs begin and end with the marks and the case of their texts."),
    ] = False,
    pivot: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            show_default=False,
            help="A second model, which translates the outputs of the first: through a pivot language.",
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print JSON with attention weights, alignments, confidences, doubts.")
    ] = False,
    fields: Annotated[
        list[str] | None,
        typer.Option(
            "--field",
            metavar="NAME",
            show_default=False,
            help="Print JSON with this field of a package of yours; may be given several times. See docs/extend.md.",
        ),
    ] = None,
    reverse: Annotated[
        str | None,
        typer.Option(
            "--reverse",
            metavar="MODEL",
            show_default=False,
            help="With --explain: a model of the opposite direction, for alignments by both.",
        ),
    ] = None,
    as_json: Json = False,
    device: Device = "cpu",
    precision: PrecisionName = "fp32",
    compile_search: CompileSearch = "auto",
    use_shortlist: UseShortlist = False,
    tracking: Tracking = None,
    keys: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            show_default=False,
            help="With -o: a key or column whose texts are translated; may be given several times. Default: all.",
        ),
    ] = None,
    encoding: Annotated[
        str | None,
        typer.Option(metavar="NAME", show_default=False, help="With -o: the encoding of an old text file, as cp1251."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", show_default=False, help="Write FILE as a translated document."),
    ] = None,
) -> int:
    """Translate files, or stdin, to stdout, in UTF-8: one line for every line, in order, as soon as it is ready.
    With -o, translate one document, in the format that its suffix says, and write it to a file.

    An empty line stays empty. A line that the model cannot read (not UTF-8, or with a NUL) becomes an empty
    line, is named on stderr, and the exit code is 1 at the end. With --n-best N a line becomes N lines `NUMBER ||| TEXT
    ||| SCORE`. Line numbers continue over several files; --mt and the pictures refer to these numbers.

    --glossary and --do-not-translate prescribe how terms are translated; an inflected form of a term is found too, and
    its target is written as given. URLs, placeholders and the like stay as they are. See docs/terms.md.

    A line that is longer than the model reads is translated in parts. With --pivot the second model translates the best
    three outputs of the first, and the best pair is chosen. See docs/rest-api.md.

    With --target-prefix and --n-best, outputs differ in the first word after the prefix.

    With --explain a line is JSON; --reverse adds the links of a model of the opposite direction. See docs/alignment.md.

    With -o the input file is a document: txt, md, markdown, mdx, html, htm, srt, vtt, json, arb, yaml, yml, csv, tsv,
    properties, strings, xml, resx, po, pot, xlf, xliff, tmx, docx, pptx, xlsx, odt, odp, ods, epub or pdf, which is
    written as html. Only its text changes. A sentence that the model cannot read stays, and the exit code is 1. See
    docs/documents.md.
    """
    from interlinear.cli.decoding.alignment import load_reverse
    from interlinear.cli.decoding.document_translation import check_lines, document_to_translate, write_translation
    from interlinear.cli.decoding.glossary import terms_finder
    from interlinear.cli.decoding.input_lines import attach_inputs, read_groups
    from interlinear.cli.decoding.model_loading import load_bundle
    from interlinear.cli.decoding.pivot import first_options, load_pivot
    from interlinear.cli.decoding.translation import as_record, as_text, check_target_prefix, translate_lines
    from interlinear.documents.formats import ReadOptions
    from interlinear.generation.generator import SequenceGenerator
    from interlinear.translation.answer_fields import check_fields
    from interlinear.translation.offline import OfflineModel
    from interlinear.translation.splitting import SplitOptions

    if pivot and (reverse or tokenised):
        raise UsageError("--pivot", "--reverse and --tokenised are for one model", "leave one of them out")
    if reverse and not explain:
        raise UsageError("--reverse", "it is for explanations", "say --explain too, or leave it out")
    document = None
    if output:
        unused = {
            "--mt": mt,
            "--image-dir": image_dir,
            "--n-best": search.n_best,
            "--tokenised": tokenised,
            "--target-prefix": target_prefix is not None,
        }
        unused |= {"--explain": explain, "--field": bool(fields), "--json": as_json}
        document = document_to_translate(files or [], output, unused, ReadOptions(tuple(keys or ()), encoding))
    elif keys or encoding:
        raise UsageError("--keys" if keys else "--encoding", "it is for documents", "say where to write it: -o FILE")
    else:
        check_lines(files or [])
    check_fields(fields or (), "--field")
    bundle = load_bundle(model, tracking, device, precision, use_shortlist, compile_search)
    second = load_pivot(pivot, bundle, search, tracking, device, precision) if pivot else None
    options = first_options(search, bundle) if second else search.apply_to(bundle)
    find_terms = terms_finder(bundle, glossary, do_not_translate, protect, tokenised)
    if target_prefix is not None:
        check_target_prefix(second.model.generation.bundle if second else bundle, tokenised)
    backward = load_reverse(reverse, bundle.card, device, tracking, precision) if reverse else None
    generation = SequenceGenerator(bundle, width=options.beam, reverse=backward)
    mode = split_sentences or ("1" if output else "0")
    how = SplitOptions(OfflineModel.fits, mode, preserve_formatting, second)
    if document and output:
        return write_translation(OfflineModel(generation), document, options, output, how, find_terms)
    failed = 0
    groups = attach_inputs(read_groups(files or []), bundle.card.model, mt, image_dir)
    tokenised_fields = frozenset({*bundle.card.model.texts, "target"}) if tokenised else frozenset[str]()
    outcomes = translate_lines(
        generation, groups, options, explain, tokenised_fields, find_terms, target_prefix, how, tuple(fields or ())
    )
    in_json = as_json or explain or bool(fields)
    for outcome in outcomes:
        if outcome.problem:
            failed += 1
            say(f"{outcome.line.where}: {outcome.problem} The line stays empty.")
        print(as_record(outcome) if in_json else as_text(outcome, numbered=search.n_best is not None))
        sys.stdout.flush()
    return FAILED if failed else 0
