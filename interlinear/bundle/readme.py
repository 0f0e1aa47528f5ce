"""Renders a bundle's `README.md`, the model card for people, from the content of `model.json`."""

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlinear.bundle.model_card import ModelCard

PURPOSES = {
    "translation": "Translates text, a sentence at a time.",
    "summarization": "Writes a headline for a short text.",
    "multimodal": "Translates a sentence with the help of a picture.",
    "post-edit": "Corrects a machine translation, given its source.",
}

DEV_SCORES = {"dev_bleu": "dev BLEU", "dev_rouge_l": "dev ROUGE-L"}  # scores of the model's outputs


def usage_commands(model: str, name: str, store: str | None = None) -> tuple[str, ...]:
    """Example commands for a model; `model` is its argument on the command line, `name` its name in the service,
    `store` the address of the MLflow store that has it."""
    tracking = f" --tracking {shlex.quote(store)}" if store else ""
    return (
        f"interlinear info {model}{tracking}",
        f"interlinear translate {model}{tracking} < text",
        f"interlinear serve --model {name}={model}{tracking}",
    )


def readme_of_version(text: str, name: str, version: str, store: str) -> str:
    """The text of a README whose commands use a registered version in a store instead of a folder."""
    registered_commands = usage_commands(f"models:/{name}/{version}", name, store)
    pairs = zip(usage_commands("FOLDER", "NAME"), registered_commands, strict=True)
    for of_folder, registered in pairs:
        text = text.replace(f"    {of_folder}", f"    {registered}")
    return text


def render_readme(card: "ModelCard", parameters: int, operations_on: str | None = None) -> str:
    """Render task, languages, data with licence, scores with signatures, limits, and usage as Markdown.

    `operations_on`: for a model that generates edit operations, the source that they apply to.
    """
    name = str(card.recipe.get("name", "model"))
    languages = [f"{field}: {code}" for field, code in card.languages.items()]
    data = " - ".join(str(card.data[key]) for key in ("name", "licence") if card.data.get(key))
    facts = {
        "system": f"{name}. {card.recipe.get('about', '')}".strip(),
        "languages": ", ".join(languages) or "not stated",
        "parameters": f"{parameters:,}",
        "reads and writes": "; ".join(
            f"{field}: {side}" for field, side in [*card.model.sources.items(), ("target", card.model.target)]
        ),
        "writes": f"operations that keep, delete and insert pieces of '{operations_on}'" if operations_on else "text",
        "trained on": data or "not stated",
        "made": f"{card.created}, commit {card.git_commit or 'unknown'}",
        "weights": f"SHA-256 `{card.weights_sha256}`",
    }
    training = card.recipe.get("training", {})
    if training.get("objective") == "risk":
        from interlinear.minimum_risk.minimum_risk import (
            RiskOptions,  # imported here, since it loads torch, which listing registered models does not need
        )

        metric = training.get("risk", {}).get("metric", RiskOptions().metric)
        facts["objective"] = f"minimum risk: the expectation of 1 - {metric.upper()} over its own outputs"
    if card.guide:
        facts["attention guided by"] = f"word links, {card.guide}"
    if training.get("init_from"):
        facts["started from"] = str(training["init_from"])
    searched = f" ({card.dev_search})" if card.dev_search else ""
    titles = {metric: f"{title}{searched}" for metric, title in DEV_SCORES.items()} | {
        "dev_perplexity": "dev perplexity"
    }
    scores = []
    for metric, score in card.metrics.items():
        signature = score.signature.replace("|", r"\|")  # a bar would end the cell
        scores.append(f"| {titles.get(metric, metric)} | {score.score:.2f} | `{signature}` |")
    limits, search = card.limits, card.search
    lines = [
        f"# {name}: {', '.join(dict.fromkeys(card.languages.values())) or card.task}",
        "",
        PURPOSES[card.task],
        "",
        *(f"- {key}: {value}" for key, value in facts.items()),
        "",
        "## Scores",
        "",
        *(["| score | value | signature |", "|---|---|---|", *scores] if scores else ["No scores are recorded."]),
        "",
        "## Limits",
        "",
        f"- It reads at most {limits.source_length} tokens and writes at most {limits.target_length}; longer text is "
        "refused, never cut silently.",
        "- It was trained on one kind of text. For other text the output may be fluent but wrong: check the "
        "explanation (`--explain`, `explain: true`), which shows which source words each output word depends on.",
        "- The data's licence determines what the model may be used for.",
        "",
        "## Use",
        "",
        *(f"    {command}" for command in usage_commands("FOLDER", "NAME")),
        "",
        f"The beam size is {search.beam}; `--beam-size` sets another one.",
        "",
    ]
    return "\n".join(lines)
