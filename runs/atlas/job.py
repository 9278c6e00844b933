"""The atlas of a model: every analysis that it and the data allow, each an ordinary run, joined in one table and page."""

import datetime
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.errors import InputError
from headscope.processes import is_first_process
from headscope.progress import announced
from headscope.reports.atlas.content import Model, Part, fact_rows, model_atlas, summary_rows, tested
from headscope.reports.atlas.heads import grids
from headscope.reports.atlas.html import atlas_html
from headscope.reports.results import write_atomically, write_report
from headscope.reports.terminal import show
from headscope.runs.atlas.parts import Outcome, Planned, published_figures, run_part
from headscope.runs.atlas.plan import (
    CONTENT,
    FIRST,
    SECOND,
    TUNED,
    as_list,
    check,
    first_model_of,
    makers,
    overrides_for_parts,
    plan,
    steps,
    with_what_is_not_made,
)
from headscope.runs.atlas.sentences import inputs_of_data, sentence_entries, typed
from headscope.runs.loggers.dashboards import open_loggers
from headscope.runs.provenance import describe

PAGE = "atlas.html"
Done = dict[tuple[str, str], tuple[Planned, Outcome]]  # by model and part


def run(cfg: DictConfig) -> dict[str, object]:
    """Run every part, join what they found, write the page; returns what results.json holds."""
    folder = Path(cfg.run_dir)
    hydra = HydraConfig.get()
    shared = [*overrides_for_parts(hydra.overrides.task, hydra.runtime.choices.encoder), *cfg.every_part]
    encoder = check(cfg)
    if is_first_process():
        for name in ("results.json", PAGE, CONTENT):
            (folder / name).unlink(missing_ok=True)
    live = with_what_is_not_made(cfg)
    done = run_parts(live, shared)
    if not any(outcome.cfg for _, outcome in done.values()):
        raise InputError(f"nothing is left of the atlas: {left_out(done, FIRST)[0]['why']}")
    return report(cfg, live.tuned, encoder, done) if is_first_process() else {}


def run_parts(cfg: DictConfig, shared: Sequence[str]) -> Done:
    """Run the parts of the first model, then those of the second; fills in the keys that parts make."""
    done: Done = {}
    for model, name in announced(steps(cfg), cfg.experiment_name):
        if model == SECOND and cfg.tuned is None:
            continue
        planned = plan(cfg, model, name, shared)
        needs = [*planned.part.get("needs", []), *(makers(cfg) if model == SECOND else [])]
        out_of_date = any(done[FIRST, need][1].computed for need in needs if (FIRST, need) in done)
        outcome = run_part(planned, cfg.resume and not out_of_date)
        for key, file in planned.part.get("makes", {}).items():
            cfg[key] = str(planned.folder / file) if outcome.cfg else None
        done[model, name] = (planned, outcome)
    return done


def report(cfg: DictConfig, tuned: str | None, encoder: FrozenEncoder, done: Done) -> dict[str, object]:
    """Join, write and show."""
    folder = Path(cfg.run_dir)
    models, encoders = [joined(cfg, FIRST, display_name(encoder.name), done)], [encoder]
    if (SECOND in {model for model, _ in done}) and tuned:
        models.append(joined(cfg, SECOND, f"{models[0].name}, fine-tuned on {cfg.task}", done))
        encoders.append(FrozenEncoder(tuned, dtype=cfg.encoder.dtype))
    entries = [model_atlas(model, e.identity(), folder) for model, e in zip(models, encoders, strict=True)]
    add_sentences(cfg, encoders, entries, done)
    entries[0]["facts"] = facts = fact_rows(models[0], cfg.facts)
    if cfg.compare_with not in (None, TUNED):
        entries.append(first_model_of(cfg.compare_with))
    atlas = {
        "title": f"Atlas of {models[0].name}",
        "created": datetime.date.today().isoformat(),
        "command": " ".join(sys.argv),
        "models": entries,
        "questions": answers(cfg, models),
    }
    results = {
        "experiment": cfg.experiment_name,
        "metrics": metrics(models),
        "tables": {
            "summary": summary_rows(models),
            "facts": facts,
            "left_out": entries[0]["left_out"],
            "published": entries[0]["published"],
            **{f"question_{name}": answer["rows"] for name, answer in atlas["questions"].items()},
        },
        "provenance": {**describe(cfg), **provenance(models, entries)},
        "runs": {part.name: part.folder.relative_to(folder).as_posix() for part in models[0].parts},
    }
    rows = [[row for quantity in model.quantities for row in quantity.rows] for model in models]
    files = dict(zip(("heads.csv", f"{TUNED}/heads.csv"), rows, strict=False))
    with open_loggers(cfg, group=folder.name) as loggers:
        write_atomically(folder / CONTENT, json.dumps(atlas, ensure_ascii=False, allow_nan=False).encode())
        write_atomically(folder / PAGE, atlas_html(atlas).encode())
        write_report(folder, results, {}, [], files)
        loggers.publish(results, {}, folder)
    show(results, folder, [*loggers.closing_lines, f"page: {folder / PAGE}"])
    return results


def joined(cfg: DictConfig, which: str, name: str, done: Done) -> Model:
    """A model with the runs that looked at it; a sweep of the fine-tuned model is told of both."""
    finished = [
        Part(
            planned.name,
            planned.folder,
            planned.part.get("sections", []),
            planned.part.get("tables", []),
            published_figures(planned, outcome.analyses),
        )
        for (model, _), (planned, outcome) in done.items()
        if outcome.cfg and (model == which or (which == SECOND and planned.part.get("encoder")))
    ]
    meanings = OmegaConf.to_container(cfg.quantities, resolve=True)
    return Model(name, finished, left_out(done, which), meanings, cfg.least_words)


def left_out(done: Done, which: str) -> list[dict[str, str]]:
    """What the model or the data did not allow."""
    return [row for (model, _), (_, outcome) in done.items() if model == which for row in outcome.left_out]


def add_sentences(cfg: DictConfig, encoders: Sequence[FrozenEncoder], entries: Sequence[dict], done: Done) -> None:
    """The user's sentences and some of the data, with each model's maps; what does not fit is told."""
    tokenizer = encoders[0].tokenizer()
    inputs = list(typed(as_list(cfg.sentences)))
    for name, wanted in cfg.shown.items():
        _, outcome = done.get((FIRST, name), (None, Outcome()))
        if outcome.cfg:
            inputs += inputs_of_data(outcome.cfg, wanted.inputs, wanted.tokens, tokenizer)
    for encoder, entry in zip(encoders, entries, strict=True):
        entry["sentences"], missing = sentence_entries(encoder.load(), inputs, cfg.typed_tokens, cfg.map_bytes)
        entry["left_out"] += [{"experiment": "sentences", "why": why} for why in missing]


def answers(cfg: DictConfig, models: Sequence[Model]) -> dict[str, dict]:
    """The questions that need several analyses, each answered by the first of its models that can."""
    by_place = dict(zip((FIRST, SECOND), models, strict=False))
    found = {}
    for name, question in cfg.questions.items():
        ask, asked = instantiate(question.ask), [by_place[place] for place in question.of if place in by_place]
        tried = [{**ask(grids(model.quantities)), "model": model.name} for model in asked]
        unasked = {"rows": [], "why": "there is no second model to ask."}
        found[name] = next((answer for answer in tried if answer["rows"]), tried[-1] if tried else unasked)
    return found


def metrics(models: Sequence[Model]) -> dict[str, float | None]:
    """The metrics of all parts of the first model, by part."""
    return {
        f"{part.name}/{name.removeprefix('test/')}": value
        for part in models[0].parts
        for name, value in part.results["metrics"].items()
    }


def provenance(models: Sequence[Model], entries: Sequence[dict]) -> dict[str, object]:
    """Where the numbers come from, over all parts."""
    of_parts = {part.name: part.results["provenance"] for part in models[0].parts}
    every = {part.folder: part.results["provenance"] for model in models for part in model.parts}.values()
    return {
        "encoder": entries[0]["encoder"],
        "tuned_encoder": entries[1]["encoder"] if len(entries) > 1 else None,
        "data": {file: sha for one in every for file, sha in one["data"].items()},
        "vectors": None,
        "examples": {name: tested(one["examples"]) for name, one in of_parts.items()},
        "left_out": {what: count for one in of_parts.values() for what, count in one["left_out"].items()},
        "skipped": {name: sum(one["skipped"].values()) for name, one in of_parts.items()},
        "words_without_pieces": {name: sum(one["words_without_pieces"].values()) for name, one in of_parts.items()},
        "seconds": round(sum(one["seconds"] for one in every), 2),
    }


def display_name(name: str) -> str:
    """The last part of a path or hub id that tells a model from others."""
    parts = [part for part in name.removeprefix("package:").split("/") if part]
    return parts[-2] if len(parts) > 1 and parts[-1] == "model" else parts[-1]
