"""The atlas of a model: every analysis that it and the data allow, each an ordinary run, joined in one table and page."""

import datetime
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.utils import instantiate
from omegaconf import DictConfig

from headscope.contracts import Findings, RunResults, Source
from headscope.errors import InputError
from headscope.files import write_atomically
from headscope.processes import announced, is_first_process
from headscope.reports.atlas.content import Model, fact_rows, model_atlas, read_part, summary_rows, tested
from headscope.reports.atlas.html import atlas_html
from headscope.runs.atlas.parts import Outcome, published_figures, run_part, run_together
from headscope.runs.atlas.plan import (
    CONTENT,
    ENCODER,
    TUNED,
    Planned,
    Step,
    as_list,
    check,
    first_model_of,
    has_tuned,
    made_by,
    needs_of,
    never_made,
    not_asked_for,
    plan,
    settled,
    steps,
    waves,
)
from headscope.runs.children import handed_on
from headscope.runs.limits import launcher_is_chosen
from headscope.runs.report import open_run
from headscope.runs.resume import clear, keep_texts, require_not_lost

PAGE = "atlas.html"
Done = dict[Step, tuple[Planned, Outcome]]  # by model and part


class PartsFailed(InputError):
    """Some parts could not read the user's own files."""


def run(cfg: DictConfig) -> RunResults | None:
    """Run every part, join what they found, write the page; an error at the end where the user's own data is malformed."""
    keep_texts(cfg)
    # The encoder's group option goes first, also where an experiment by itself would take another.
    given = [f"encoder={HydraConfig.get().runtime.choices['encoder']}", *handed_on(cfg)]
    encoder = check(cfg)
    require_not_lost(Path(cfg.run_dir), {"tuned.name": cfg.tuned.name, "encoder.name": cfg.encoder.name})
    done, made = run_parts(cfg, given)
    if not any(outcome.cfg for _, outcome in done.values()):
        raise InputError(f"nothing is left of the atlas: {left_out(cfg, done, ENCODER)[0]['why']}")
    results = report(cfg, settled(cfg, made), encoder, done) if is_first_process() else None
    failed = {planned.name: outcome.failed for planned, outcome in done.values() if outcome.failed}
    if failed and is_first_process():  # which has written the page; another process would end it meanwhile
        sentences = " ".join(f"{name}: {why}" for name, why in failed.items())
        raise PartsFailed(f"{len(failed)} of {len(done)} parts were left out, their data cannot be used. {sentences}")
    return results


def run_parts(cfg: DictConfig, given: Sequence[str]) -> tuple[Done, dict[str, str | None]]:
    """Run the parts of the first model, then those of the fine-tuned one; also returns the keys that parts made.

    With a launcher, those that do not need each other run at the same time.
    """
    done: Done = {}
    made: dict[str, str | None] = dict(never_made(cfg))
    as_jobs, name = launcher_is_chosen(), cfg.experiment_name
    one_by_one = announced([] if as_jobs else steps(cfg), name, lambda step: f"{step[1]} of the {step[0]}")
    for wave in waves(cfg) if as_jobs else ([step] for step in one_by_one):
        now, tries = settled(cfg, made), {}
        for model, part in wave:
            if model == ENCODER or has_tuned(now):
                out_of_date = any(done[need][1].computed for need in needs_of(cfg, (model, part)) if need in done)
                tries[model, part] = (plan(now, model, part, given), cfg.resume and not out_of_date)
        outcomes = run_together(tries, name) if as_jobs else {step: run_part(*one) for step, one in tries.items()}
        for (model, part), (planned, _) in tries.items():
            done[model, part] = (planned, outcomes[model, part])
            for key, file in made_by(cfg, part).items() if model == ENCODER else ():
                made[key] = str(planned.folder / file) if outcomes[model, part].cfg else None
    return {step: done[step] for step in steps(cfg) if step in done}, made


def report(cfg: DictConfig, now: DictConfig, encoder: Any, done: Done) -> RunResults:
    """Join, write and show; `now` is the configuration with what parts made."""
    folder = Path(cfg.run_dir)
    models, encoders = [joined(cfg, ENCODER, display_name(encoder.name), done)], [encoder]
    if TUNED in {model for model, _ in done} and (tuned := instantiate(now.tuned, _convert_="all")):
        models.append(joined(cfg, TUNED, f"{models[0].name}, fine-tuned on {cfg.task}", done))
        encoders.append(tuned)
    entries = [model_atlas(model, one.identity(), folder) for model, one in zip(models, encoders, strict=True)]
    add_sentences(cfg, encoders, entries, done)
    entries[0]["facts"] = facts = fact_rows(models[0], cfg.facts)
    if cfg.beside is not None:
        entries.append(first_model_of(cfg.beside))
    atlas = {
        "title": f"Atlas of {models[0].name}",
        "created": datetime.date.today().isoformat(),
        "command": shlex.join(sys.argv),
        "models": entries,
        "questions": answers(cfg, models),
    }
    rows = [model.head_rows() for model in models]
    findings = Findings(
        metrics=metrics(models),
        tables={
            "summary": summary_rows(models),
            "facts": facts,
            "left_out": entries[0]["left_out"],
            "published": entries[0]["published"],
            **{f"question_{name}": answer["rows"] for name, answer in atlas["questions"].items()},
        },
        # The parts' own rows, digit for digit.
        files=dict(zip(("heads.csv", f"{TUNED}/heads.csv"), rows, strict=False)),
    )
    source = source_of(models, entries)
    runs = {part.name: part.folder.relative_to(folder).as_posix() for part in models[0].parts}
    seconds = sum({part.folder: part.results.provenance.seconds for model in models for part in model.parts}.values())
    with open_run(cfg, group=folder.name, lines=[f"page: {folder / PAGE}"]) as opened:
        clear(folder)  # not before all parts are there: one that fails leaves the old atlas
        write_atomically(folder / CONTENT, json.dumps(atlas, ensure_ascii=False, allow_nan=False).encode(), durable=True)
        write_atomically(folder / PAGE, atlas_html(atlas).encode())
        return opened.finish(findings, source, seconds, runs)


def joined(cfg: DictConfig, which: str, name: str, done: Done) -> Model:
    """A model with the runs that looked at it; a sweep of the fine-tuned model is told of both."""
    parts = [
        read_part(
            planned.name,
            planned.folder,
            as_list(planned.part.get("tables")),
            published_figures(planned, outcome.analyses),
        )
        for (model, _), (planned, outcome) in done.items()
        if outcome.cfg and (model == which or (which == TUNED and planned.encoder is not None))
    ]
    return Model(name, parts, left_out(cfg, done, which), cfg.least_words)


def left_out(cfg: DictConfig, done: Done, which: str) -> list[Mapping[str, Any]]:
    """What was needed and not asked for, and what the model or the data did not allow."""
    rows = [row for (model, _), (_, outcome) in done.items() if model == which for row in outcome.left_out]
    return [*(not_asked_for(cfg) if which == ENCODER else ()), *rows]


def add_sentences(cfg: DictConfig, encoders: Sequence[Any], entries: Sequence[dict[str, Any]], done: Done) -> None:
    """The user's sentences and some of the data, with each model's maps; what does not fit is told."""
    show = instantiate(cfg.sentence_maps)
    inputs = list(show.typed(as_list(cfg.sentences)))
    for name, wanted in cfg.shown.items():
        _, outcome = done.get((ENCODER, name), (None, Outcome()))
        if outcome.cfg:
            datamodule = instantiate(outcome.cfg.data, _convert_="all")
            texts = [example.words for example in datamodule.read_examples()["test"]]
            inputs += show.of_data(texts, datamodule.units == "words", wanted.inputs, wanted.tokens, encoders[0])
    for encoder, entry in zip(encoders, entries, strict=True):
        entry["sentences"], missing = show.entries(encoder, inputs, cfg.typed_tokens, cfg.map_bytes)
        entry["left_out"] += [{"experiment": "sentences", "why": why} for why in missing]


def answers(cfg: DictConfig, models: Sequence[Model]) -> dict[str, dict[str, Any]]:
    """The questions that need several analyses, each answered by the first of its models that can."""
    by_model = dict(zip((ENCODER, TUNED), models, strict=False))
    found = {}
    for name, question in cfg.questions.items():
        ask, asked = instantiate(question.ask), [by_model[model] for model in question.of if model in by_model]
        tried = [{**ask(model.grids()), "model": model.name} for model in asked]
        unasked = {"rows": [], "why": "there is no second model to ask."}
        found[name] = next((answer for answer in tried if answer["rows"]), tried[-1] if tried else unasked)
    return found


def metrics(models: Sequence[Model]) -> dict[str, float | None]:
    """The metrics of all parts of the first model, by part."""
    return {
        f"{part.name}/{name.removeprefix('test/')}": value
        for part in models[0].parts
        for name, value in part.results.metrics.items()
    }


def source_of(models: Sequence[Model], entries: Sequence[Mapping[str, Any]]) -> Source:
    """Where the numbers come from, over all parts."""
    of_parts = {part.name: part.results.provenance for part in models[0].parts}
    every = [part.results.provenance for model in models for part in model.parts]
    return Source(
        encoder=entries[0]["encoder"],
        tuned_encoder=entries[1]["encoder"] if len(entries) > 1 else None,
        data={file: sha for one in every for file, sha in one.data.items()},
        examples={name: tested(one.examples) for name, one in of_parts.items()},
        layout=models[0].layout().to_json(),
        left_out={what: count for one in of_parts.values() for what, count in one.left_out.items()},
        skipped={name: sum(one.skipped.values()) for name, one in of_parts.items()},
        words_without_pieces={name: sum(one.words_without_pieces.values()) for name, one in of_parts.items()},
    )


def display_name(name: str) -> str:
    """The last part of a path or hub id that tells a model from others."""
    parts = [part for part in name.removeprefix("package:").split("/") if part]
    return parts[-2] if len(parts) > 1 and parts[-1] == "model" else parts[-1]
