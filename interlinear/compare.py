"""`interlinear compare`: whether one model is better than another by more than chance."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from interlinear.arguments import DataName, DataRoot, Device, Json, Tracking
from interlinear.evaluate import Lowercase, ReferenceFiles, SourceFile, Split, Tokenize, read_test_set, translated
from seq2seq.errors import CallError

Models = Annotated[
    list[str],
    typer.Argument(metavar="MODEL MODEL...", show_default=False, help="Two or more; the first is the baseline."),
]


def compare(
    models: Models,
    data: DataName = None,
    split: Split = "test",
    source: SourceFile = None,
    reference: ReferenceFiles = None,
    tokenize: Tokenize = None,
    lowercase: Lowercase = None,
    samples: Annotated[
        int, typer.Option(min=0, metavar="N", help="Resamples and trials; 0: sacrebleu's 1,000 and 10,000.")
    ] = 0,
    as_json: Json = False,
    data_root: DataRoot = None,
    device: Device = "cpu",
    tracking: Tracking = None,
) -> None:
    """Score models side by side: BLEU, its 95 % interval, and the chance that a difference from the first is none.

    Two paired tests: bootstrap resampling and approximate randomisation, as sacrebleu has them.
    """
    from interlinear.loading import load_generation
    from seq2seq.metrics.significance import compare_bleu

    if len(set(models)) < max(2, len(models)):
        raise CallError("compare", "two different models at least are needed", "name each model once")
    outputs, test_set = {}, None
    for model in models:
        generation = load_generation(model, tracking, device)
        if test_set is None:
            test_set = read_test_set(generation, data, split, source, reference or [], data_root)
        outputs[model] = translated(generation, test_set, generation.bundle.card.search, model)
    assert test_set is not None
    cut, ignore_case = tokenize or test_set.tokenize, test_set.lowercase if lowercase is None else lowercase
    bootstrap, randomisation = (
        compare_bleu(outputs, test_set.references, test, samples, cut, ignore_case)
        for test in ("bootstrap", "randomisation")
    )
    if as_json:
        print(json.dumps({"bleu": {"bootstrap": asdict(bootstrap), "randomisation": asdict(randomisation)}}))
        return
    width = max(len(model) for model in models)
    print(f"{'MODEL'.ljust(width)}   BLEU     95 % INTERVAL   p BOOTSTRAP   p RANDOMISATION")
    for one, other in zip(bootstrap.systems, randomisation.systems, strict=True):
        interval = f"{one.mean:.2f} ± {one.interval:.2f}"
        chances = [f"{p:.4f}" if p is not None else "baseline" for p in (one.p_value, other.p_value)]
        print(f"{one.system.ljust(width)}  {one.score:5.2f}  {interval:>16}  {chances[0]:>12}  {chances[1]:>16}")
    print(f"bootstrap:     {bootstrap.signature}\nrandomisation: {randomisation.signature}")
