"""The tables of papers: what they train, in which order, and contradictions that are refused."""

from pathlib import Path

import pytest

from interlinear.errors import DataError
from research.__main__ import run as research
from research.papers import load_paper, paper_names, plan_runs
from research.runs import setting, training_stages
from tests.research.conftest import group_of, reproduce, write_paper

pytestmark = pytest.mark.slow

TOOLKIT = {"about": "outputs", "toolkit": "Other-NMT", "version": "1.2", "parameters": 1_500_000}
PUBLISHED = {"name": "X", "citation": "X", "settings": "none", "scores": {"dev": {"bleu": 1.0}}}
BUDGET = {"trials": 2, "epochs": 2, "grace": 2}


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"shuffle_images": ["test_2017"]}, "shuffle_images names test_2017, which is not among the test sets: test"),
        ({"also_published": [PUBLISHED]}, "also_published names dev"),
        ({"toolkit_systems": {"one": TOOLKIT}}, "one is among systems and toolkit_systems"),
        ({"starts_from": {"other": "uam"}}, "starts_from: uam is none of the group's systems: one, other"),
        ({"starts_from": {"other": "one", "one": "other"}}, "which starts from itself"),
        ({"paper": {"systems": {"uam": {"training.epochs": 1}}}}, "paper.systems: uam is none of the group's systems"),
        ({"starts_from": {"other": "one"}, "tuning": BUDGET}, "systems that start from another one are not tuned"),
        ({"taken_from": {"uam": "base"}}, "taken_from: uam is none of the group's systems"),
        ({"taken_from": {"one": "bass"}}, "toys.taken_from: one of bass: groups that train it are base"),
        ({"taken_from": {"one": "base"}, "tests": {"dev": "ter"}}, "that group is not tested on dev"),
        ({"taken_from": {"one": "base"}, "data": "demo"}, "that group has other data"),
        ({"taken_from": {"one": "base"}, "starts_from": {"one": "other"}}, "among taken_from and starts_from"),
    ],
)
def test_a_table_that_contradicts_itself_is_an_error(tmp_path: Path, keys: dict[str, object], says: str):
    with pytest.raises(DataError, match=says):
        write_paper(tmp_path, "ter", {"base": group_of(tmp_path, "ter")}, **keys)


def test_a_data_set_s_yaml_is_not_a_table(data: Path, capsys: pytest.CaptureFixture[str]):
    assert research(["reproduce", str(data / "data.yaml")]) == 1
    said = capsys.readouterr().err
    assert "data.yaml: describes no paper's tables: " in said and "validation error" not in said
    assert said.count("\n") == 1


def test_an_unknown_paper_group_or_system_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_paper(tmp_path, "ter")
    assert research(["reproduce", "attention-is-all"]) == 2
    assert "here are interactive-attention, multi-source, multi30k, uam, word-attention" in capsys.readouterr().err
    assert reproduce(tmp_path, "--only", "transformer") == 2
    assert "roups are toys; systems of the core one, other" in capsys.readouterr().err
    assert reproduce(tmp_path, "--at-once", "2") == 2
    assert "--address" in capsys.readouterr().err


def test_a_system_s_settings_are_those_of_the_group_the_scale_its_variant_and_its_own(tmp_path: Path):
    variant = {"of": "uam", "settings": {"b": 3, "c": 3, "d": 3}}
    scale = {"settings": {"a": 2, "b": 2, "c": 2}, "systems": {"one": {"d": 4}}}
    paper = write_paper(tmp_path, "ter", settings={"a": 1, "e": 1}, small=scale, variants={"one": variant})
    training = paper.groups["toys"].training("one", "small")
    assert training.recipe == "uam" and training.settings == {"a": 2, "b": 3, "c": 3, "d": 4, "e": 1}


@pytest.mark.parametrize("name", sorted({*paper_names()} - {"multi30k"}))  # which is no paper's
def test_minimum_risk_starts_from_the_first_stage_and_is_compared_with_it(name: str):
    """`--only minimum-risk` trains both, the first stage first; gains are over the group's first system."""
    table = load_paper(name)
    for key in (key for key in table.groups if "minimum-risk" in key):
        group = table.groups[key]
        first, second, *_ = group.systems
        source = group.taken_from[first]
        assert second == f"{first}-mrt" and group.starts_from[second] == first
        runs = plan_runs(name, table, "small", 2, [key])
        assert plan_runs(name, table, "small", 2, [f"{key}/{second}"]) == runs
        stages = [[(run.group, run.system) for run in stage] for stage in training_stages(runs, table)]
        assert stages[-2:] == [[(source, first)] * 2, [(key, second)] * 2]
        settings = group.training(second, "small").settings
        assert settings["training.objective"] == "risk"
        assert settings.items() >= {"training.epochs": 5, "training.epoch_updates": 100}.items()
        assert "training.objective" not in table.groups[source].training(first, "small").settings
    assert any("minimum-risk" in key for key in table.groups)


@pytest.mark.parametrize("name", paper_names())
def test_the_papers_tables_use_existing_recipes_and_metrics(name: str):
    from interlinear.metrics.catalogue import GROUPS, METRICS
    from training.data.dataset import dataset_names
    from training.recipe import load_recipe

    table = load_paper(name)
    assert plan_runs(name, table, "small", 1)
    for key, group in table.groups.items():
        for scale in ("small", "paper"):
            for place in plan_runs(name, table, scale, 2, [key]):
                own = table.groups[place.group].training(place.system, scale)
                assert own.data in dataset_names()
                settings = own.settings | ({"training.init_from": "a"} if table.start_of(place) else {})
                load_recipe(own.recipe, [setting(name, value) for name, value in settings.items()])
                if scale == "paper" and "training.learning_rate" in settings:  # a rate is of an optimizer
                    assert "training.optimizer" in settings
        for metrics in group.tests.values():
            assert all(metric in METRICS or metric in GROUPS for metric in metrics.split(","))
