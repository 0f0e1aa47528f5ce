"""Measures a peer of benchmarks/frontier.py in its own environment, from raw text to raw text.

    python frontier_search.py OUTPUT FOLDER SYSTEM --beam N --threads N --lines FILE --alone N

SYSTEM is opennmt, joeynmt, ctranslate2, or ctranslate2-map (with its vocabulary map); FOLDER holds what frontier.sh
made. Pieces are made and joined by SentencePiece, whose time counts. Batches have 32 sentences.
"""

import argparse
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import sentencepiece
from search_times import Translate, measure

BATCH = 32  # sentences
Pieces = list[str]


def with_pieces(folder: Path, search: Callable[[list[Pieces]], list[Pieces]]) -> Translate:
    """A translator of raw text from one of pieces."""
    source, target = (
        sentencepiece.SentencePieceProcessor(model_file=str(folder / "multi30k" / f"{side}.model"))
        for side in ("source", "target")
    )

    def translate(lines: Sequence[str]) -> list[str]:
        return [target.decode(pieces) for pieces in search(source.encode(list(lines), out_type=str))]

    return translate


def opennmt(folder: Path, beam: int, threads: int) -> tuple[Translate, Translate]:
    from onmt.inference_engine import InferenceEnginePY
    from onmt.opts import translate_opts
    from onmt.utils.parse import ArgumentParser

    parser = ArgumentParser()
    translate_opts(parser)
    model = folder / "opennmt" / "averaged.pt"
    words = ["-model", str(model), "-src", "unused", "-output", str(folder / "opennmt-output"), "-batch_type", "sents"]
    penalty = ["-length_penalty", "avg", "-alpha", "1.0"]
    options = parser.parse_args([*words, *penalty, "-beam_size", str(beam), "-batch_size", str(BATCH)])
    ArgumentParser.validate_translate_opts(options)
    ArgumentParser._get_all_transform_translate(options)
    ArgumentParser._validate_transforms_opts(options)
    ArgumentParser.validate_translate_opts_dynamic(options)
    engine = InferenceEnginePY(options)

    def search(sentences: list[Pieces]) -> list[Pieces]:
        _, predictions = engine.infer_list([" ".join(pieces) for pieces in sentences])
        return [best[0].split() for best in predictions]

    translate = with_pieces(folder, search)
    return translate, translate


def joeynmt(folder: Path, beam: int, threads: int) -> tuple[Translate, Translate]:
    from joeynmt.config import load_config, parse_global_args
    from joeynmt.prediction import predict, prepare

    configuration = load_config(folder / "frontier_joeynmt.yaml")
    configuration["testing"]["beam_size"] = beam
    options = parse_global_args(configuration, rank=0, mode="translate")
    model, _, _, stream = prepare(options, rank=0, mode="translate")

    def search(sentences: list[Pieces]) -> list[Pieces]:
        # It does not sort its input: batches of similar length are as in the others.
        order = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))
        stream.reset_cache()
        for i in order:
            stream.set_item(" ".join(sentences[i]))
        _, _, hypotheses, _, _, _ = predict(
            model=model, data=stream, compute_loss=False, device=options.device, rank=0, n_gpu=0,
            normalization="none", num_workers=0, args=options.test, autocast=options.autocast,
        )  # fmt: skip
        found = dict(zip(order, hypotheses, strict=True))
        return [found[i].split() for i in range(len(sentences))]

    translate = with_pieces(folder, search)
    return translate, translate


def ctranslate2(folder: Path, beam: int, threads: int, use_map: bool = False) -> tuple[Translate, Translate]:
    """Together: a worker of one thread for each, which is faster than one worker of all; alone: one worker."""
    from ctranslate2 import Translator

    def translator(workers: int, threads_each: int) -> Translate:
        model = Translator(
            str(folder / "ctranslate2"), compute_type="int8", inter_threads=workers, intra_threads=threads_each
        )

        def search(sentences: list[Pieces]) -> list[Pieces]:
            results = model.translate_batch(sentences, beam_size=beam, max_batch_size=BATCH, use_vmap=use_map)
            return [result.hypotheses[0] for result in results]

        return with_pieces(folder, search)

    together = translator(threads, 1)
    return together, together if threads == 1 else translator(1, threads)


def main() -> None:
    systems = {
        "opennmt": opennmt,
        "joeynmt": joeynmt,
        "ctranslate2": ctranslate2,
        "ctranslate2-map": lambda *arguments: ctranslate2(*arguments, use_map=True),
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("system", choices=systems)
    parser.add_argument("--beam", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--lines", type=Path, required=True)
    parser.add_argument("--alone", type=int, required=True)
    asked = parser.parse_args()
    logging.disable(logging.WARNING)
    if not asked.system.startswith("ctranslate2"):
        import torch

        torch.set_num_threads(asked.threads)
    together, alone = systems[asked.system](asked.folder, asked.beam, asked.threads)
    measure(asked.output, together, alone, asked.lines.read_text("utf-8").splitlines(), asked.alone)


if __name__ == "__main__":
    main()
