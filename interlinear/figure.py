"""`interlinear figure`: pictures of what a model does."""

from pathlib import Path
from typing import Annotated

import typer

from interlinear.arguments import Device, ModelName, Tracking
from seq2seq.errors import RequestError

app = typer.Typer(help="Draw what a model does.", no_args_is_help=True)


@app.callback()
def figures() -> None:
    """Draw what a model does."""


@app.command()
def attention(
    model: ModelName,
    source: Annotated[str, typer.Option(metavar="TEXT", show_default=False, help="The text to translate.")],
    target: Annotated[
        str | None,
        typer.Option(metavar="TEXT", show_default=False, help="Look at this output; else at the model's own."),
    ] = None,
    output: Annotated[Path, typer.Option(metavar="FILE", help="A .png, .svg or .pdf file.")] = Path("attention.png"),
    device: Device = "cpu",
    tracking: Tracking = None,
) -> None:
    """Draw what each word of a translation looked at; prints the picture's path."""
    from interlinear.loading import load_generation
    from seq2seq.figures import attention_matrix
    from seq2seq.generation import Request

    generation = load_generation(model, tracking, device)
    (name,) = generation.bundle.card.model.sources
    request = Request({name: source}, generation.bundle.card.search, explain=True)
    generation.encode(request)  # a text that cannot be read is refused here, with the reason
    if target is None:
        (answer,) = generation.answers([request])
        assert not isinstance(answer, RequestError) and answer.explanation is not None
        explanation = answer.explanation
    elif target.strip():
        (explanation,) = generation.align([(request.texts, target)])
    else:
        raise RequestError("target", "the text is empty")
    print(attention_matrix(explanation, output))
