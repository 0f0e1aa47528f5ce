"""The pictures of `interlinear figure` that set systems beside each other: `lengths`, `curves`, `systems`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interlinear.arguments import DataName, DataRoot, Device, FontFile, Tracking
from interlinear.judging import asked_metrics, open_system
from interlinear.testsets import Lowercase, Place, ReferenceFiles, SourceFile, Spaced, Split, Tokenize
from seq2seq.errors import CallError

if TYPE_CHECKING:
    from registry.curves import RunCurves
    from seq2seq.figures.curves import Panel
    from seq2seq.metrics.metric import Metric, Statistics

Systems = Annotated[
    list[str],
    typer.Argument(
        metavar="[NAME=]MODEL...", show_default=False, help="What is compared, under its name, else its recipe's."
    ),
]
Runs = Annotated[
    list[str],
    typer.Argument(
        metavar="[NAME=]RUN...", show_default=False,
        help="Trainings: a run's folder, or runs:/ID. Those of one name, else of one recipe, are seeds of a system.",
    ),
]  # fmt: skip


@dataclass(frozen=True)
class Scored:
    """BLEU on a test set: how it is reckoned, the number of words of each of its sources, and what every sentence of
    every system adds, by the system's name."""

    metric: "Metric"
    signature: str
    words: list[int]
    statistics: "dict[str, Statistics]"


def lengths(
    models: Systems,
    data: DataName = None,
    split: Split = None,
    source: SourceFile = None,
    reference: ReferenceFiles = None,
    longer_than: Annotated[
        list[int] | None,
        typer.Option(min=0, metavar="N", show_default=False, help="A threshold; may be repeated. Else 0, 10, ..., 60."),
    ] = None,
    tokenised: Spaced = False,
    tokenize: Tokenize = None,
    lowercase: Lowercase = None,
    output: Annotated[Path, typer.Option(metavar="FILE", help="A .png, .svg or .pdf file.")] = Path("lengths.png"),
    font: FontFile = None,
    data_root: DataRoot = None,
    device: Device = "cpu",
    tracking: Tracking = None,
) -> None:
    """Draw BLEU over the sentences with more than N source words (Meng et al. 2016, figure 4).

    A threshold that fewer than ten sentences pass is left out.
    """
    from seq2seq.figures.lengths import THRESHOLDS, bleu_by_length, by_length
    from seq2seq.figures.style import check_suffix

    check_suffix(output)
    if reference and not source and not data:
        raise CallError(
            "--source", "sentences go by the number of their source's words", "give the file of sources too"
        )
    place = Place(data, split, source, reference or [], data_root, tokenised=tokenised)
    made = scored(models, place, tokenize, lowercase, device, tracking)
    curves = [
        by_length(name, made.words, made.metric, statistics, longer_than or THRESHOLDS)
        for name, statistics in made.statistics.items()
    ]
    print(bleu_by_length(curves, output, font))


def systems(
    models: Systems,
    data: DataName = None,
    split: Split = None,
    source: SourceFile = None,
    reference: ReferenceFiles = None,
    tokenised: Spaced = False,
    tokenize: Tokenize = None,
    lowercase: Lowercase = None,
    samples: Annotated[int, typer.Option(min=0, metavar="N", help="Resamples; 0: 1,000.")] = 0,
    output: Annotated[Path, typer.Option(metavar="FILE", help="A .png, .svg or .pdf file.")] = Path("systems.png"),
    font: FontFile = None,
    data_root: DataRoot = None,
    device: Device = "cpu",
    tracking: Tracking = None,
) -> None:
    """Draw the BLEU of systems with 95 % intervals by paired bootstrap; the first is the baseline."""
    from seq2seq.figures.style import check_suffix
    from seq2seq.figures.systems import SystemScore, system_comparison
    from seq2seq.metrics.significance import compare

    check_suffix(output)
    if len(models) < 2:
        raise CallError("figure systems", "one system alone cannot be compared", "name two or more")
    place = Place(data, split, source, reference or [], data_root, tokenised=tokenised)
    made = scored(models, place, tokenize, lowercase, device, tracking)
    runs = {name: [statistics] for name, statistics in made.statistics.items()}
    scores = []
    for one in compare(made.metric, runs, "bootstrap", made.signature, samples).systems:
        assert one.low is not None and one.high is not None  # the bootstrap's
        scores.append(SystemScore(one.system, one.score, one.low, one.high, one.p_value))
    print(system_comparison(scores, "BLEU with 95 % intervals", output, font))


def curves(
    runs: Runs,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            show_default=False,
            help="A curve in MLflow, dev/... or epoch/...; may be repeated. Else dev/bleu.",
        ),
    ] = None,
    output: Annotated[Path, typer.Option(metavar="FILE", help="A .png, .svg or .pdf file.")] = Path("curves.png"),
    font: FontFile = None,
    tracking: Tracking = None,
) -> None:
    """Draw what trainings had learnt after each epoch; seeds of one system are a line, their mean, in a band."""
    from registry.curves import DEV_BLEU, read_run
    from seq2seq.figures.curves import learning_curves
    from seq2seq.figures.style import check_suffix

    check_suffix(output)
    read = [(name, read_run(run, tracking)) for name, run in map(named, runs)]
    print(learning_curves(panels(read, metric or [DEV_BLEU]), output, font))


def panels(runs: Sequence[tuple[str, "RunCurves"]], metrics: Sequence[str]) -> list["Panel"]:
    """Runs as the curves of systems. Raises CallError where seeds by recipe differ in more than the seed."""
    from registry.curves import title_of
    from seq2seq.figures.curves import Curve, Panel

    one_data_set = len({run.dataset for _, run in runs}) == 1
    grouped: dict[str, list[RunCurves]] = {}
    for given, run in runs:
        name = given or (run.recipe if one_data_set else f"{run.recipe}, {run.dataset}")
        grouped.setdefault(name, []).append(run)
        first = grouped[name][0]
        differing = sorted(
            key for key in {*first.settings, *run.settings} if first.settings.get(key) != run.settings.get(key)
        )
        if not given and differing:
            raise CallError(
                name,
                f"runs {first.run_id} and {run.run_id} differ in {', '.join(differing[:3])}, not in their seed alone",
                "name them apart, NAME=RUN",
            )
    return [
        Panel(
            title_of(metric),
            tuple(Curve(name, tuple(run.by_epoch(metric) for run in seeds)) for name, seeds in grouped.items()),
        )
        for metric in metrics
    ]


def scored(
    models: Sequence[str],
    place: Place,
    tokenize: Tokenize,
    lowercase: Lowercase,
    device: str,
    tracking: str | None,
) -> Scored:
    """Every system's BLEU on the test set, one after the other. Raises CallError where two have one name."""
    made: Scored | None = None
    for given, model in map(named, models):
        system = open_system(model, tracking, device)
        card = system.generation.bundle.card if system.generation else None
        name = given or (str(card.recipe.get("name", model)) if card else Path(model).name)
        if made is None:
            test_set = place.read(system, aligned=False)
            answers = test_set.answers()
            (metric,) = asked_metrics("bleu", test_set.task, test_set.reading(tokenize, lowercase))
            made = Scored(metric, "", [len(test_set.words(text)) for text in test_set.sources], {})
        if name in made.statistics:
            raise CallError(model, f"another system is called {name} already", "name it, NAME=MODEL")
        outputs = system.outputs(test_set, label=name)
        made.statistics[name] = made.metric.statistics(outputs, answers)
        made = replace(made, signature=made.metric.signature(outputs, answers))
    assert made is not None  # a command has one model at least
    return made


def named(argument: str) -> tuple[str, str]:
    """`NAME=WHAT` as its parts; the name is empty where none is given. A path or an address is no name."""
    match = re.fullmatch(r"([^/\\:=]+)=(.+)", argument)
    return (match[1].strip(), match[2]) if match else ("", argument)
