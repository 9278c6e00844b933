"""What each head, or each layer, is worth (Kovaleva, section 4.6): the score of a task, or of text, with it disabled."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytorch_lightning as pl
import torch
from scipy.stats import spearmanr
from torch import Tensor
from transformers import PreTrainedModel

from headscope.contracts import EncoderSpec, Facts, Findings, HeadValues, Row, by_name, head_at, joined
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.data_modules.encoders.models import ModelFiles
from headscope.errors import ConfigError, given, require_choice
from headscope.files import appears_whole, local_path
from headscope.finetune.ablation import (
    FIRST_TOKEN,
    Readout,
    head_importance,
    path_of,
    without_each_head,
    without_each_layer,
    without_layers,
)
from headscope.finetune.frame_heads import FrameScores, ReadHeads, ReadRun, frame_scores, frames_beside_changes
from headscope.finetune.head_mask import WAYS, heads_of_layers
from headscope.finetune.held_out import HeldOut, held_out_best
from headscope.finetune.per_input import PerInput
from headscope.finetune.significance import holm, p_of_changes
from headscope.finetune.sweep_scores import Score, TaskScore
from headscope.finetune.sweep_store import digest, stored_parts
from headscope.finetune.weighted_scores import resampled

UNITS = {"heads": without_each_head, "layers": without_each_layer}
LEVEL = (2.5, 97.5)
SHOWN_ENDS = 5  # of the units that differ from the baseline, how many at either end
CHANCE = (100 - (LEVEL[1] - LEVEL[0])) / 100  # of the units that make no difference, the share whose interval excludes 0

CHOSEN = (
    "the best is chosen among all on these same inputs, so that chance alone makes it gain; held out: chosen on one half of "
    "the inputs, scored on the other; p: Holm over all {}, but held out, which is one test"
)


class DisableSweep(pl.LightningModule):
    """One pass over the dev set, in which every batch is run with each head or layer disabled.

    What was computed of a batch is kept in `folder`, so that a run that was stopped redoes nothing. With several
    checkpoints, such as those of several seeds, differences are averaged over them.
    """

    def __init__(
        self,
        facts: Facts,
        folder: str,
        units: str = "heads",
        how: str = "uniform",
        checkpoints: Sequence[str] = (),
        importance: bool | None = None,
        replicates: int = 1000,
        seed: int = 0,
        disable: Sequence[Sequence[int]] = (),
        score: Callable[[Facts], Score] = TaskScore,
        frames_run: str | None = None,
        read_run: ReadRun | None = None,
        read_heads: ReadHeads | None = None,
    ) -> None:
        super().__init__()
        require_choice("module.units", units, UNITS)
        require_choice("module.how", how, WAYS)
        if replicates < 1:
            raise ConfigError(f"module.replicates={replicates}: expected at least 1.")
        self.score, self.folder = score(facts), Path(folder)
        self.layers, self.heads = facts.layers, facts.heads
        self.units, self.how, self.replicates, self.seed = units, how, replicates, seed
        self.sets = [list(layers) for layers in disable]
        if self.sets and units != "layers":
            raise ConfigError(f"module.disable={self.sets}: sets of layers, so with module.units=layers, not {units}.")
        for layers in self.sets:
            heads_of_layers(layers, self.layers, self.heads)
            if not layers:
                raise ConfigError("module.disable=[[]]: expected the layers that are disabled together, such as [[1,2]].")
        if importance and units != "heads":
            raise ConfigError(f"module.importance={importance}: gradients tell the importance of heads, not of {units}.")
        self.importance = units == "heads" if importance is None else importance
        self.frames: FrameScores | None = None
        if frames_run:
            if units != "heads":
                raise ConfigError(f"module.frames_run={frames_run}: tells of heads, so not with module.units={units}.")
            readers = given(read_run, "what reads runs"), given(read_heads, "what reads heads.csv")
            self.frames = frame_scores(local_path(frames_run), *readers, self.layers, self.heads)
        encoder = given(facts.encoder, "an encoder")
        if encoder.init != "pretrained":
            raise ConfigError(f"encoder.init={encoder.init}: only a trained model can be swept.")
        named = [ModelFiles(spec) for spec in (encoder, *map(encoder.at, checkpoints))]
        different = {(files.folder, files.change): files for files in named}.values()
        self.models = torch.nn.ModuleList(self._open(files.spec) for files in different)
        checksums = [files.checksum() for files in different]
        what = f"{units} {self.sets or ''} {how} {self.importance} {checksums}"
        self.identity = f"{type(self.score).__name__} {self.score.metric} {what}"
        self.seen = PerInput("labels", "outputs", "importance")
        self.readout: Readout = FIRST_TOKEN  # that of the last batch, which tells whether the fast path was taken
        self.found: dict[str, Any] = {}

    def _open(self, spec: EncoderSpec) -> PreTrainedModel:
        model = self.score.open(spec, self.seed).eval().requires_grad_(False)
        shape = (model.config.num_hidden_layers, model.config.num_attention_heads)
        if shape != (self.layers, self.heads):
            raise ConfigError(f"{spec.name}: has {shape[0]} × {shape[1]} heads, expected {self.layers} × {self.heads}.")
        return model

    def test_step(self, batch: AttentionBatch, batch_idx: int) -> None:
        file = self.folder / f"{digest(self.identity, batch.encoder_inputs['input_ids'])}.npz"
        parts = stored_parts(file, self.device) if len(batch.mask) else self._nothing()
        if parts is None:
            parts = self._compute(batch)
            arrays: dict[str, Any] = {name: tensor.cpu().numpy() for name, tensor in parts.items()}
            with appears_whole(file) as draft:
                np.savez(draft, **arrays)
        self.seen.update(batch.input_index, labels=self.score.labels(batch), **parts)

    def _nothing(self) -> dict[str, Tensor]:
        """What an idle process computes; models refuse a batch of none."""
        heads = self.layers * self.heads
        units = heads if self.units == "heads" else len(self.sets) or self.layers
        return {
            "outputs": torch.zeros(0, len(self.models), 1 + units, self.score.outputs, device=self.device),
            "importance": torch.zeros(0, heads if self.importance else 0, device=self.device),
        }

    def _compute(self, batch: AttentionBatch) -> dict[str, Tensor]:
        inputs, readout = self.score.inputs(batch), self.score.readout(batch)
        self.readout = readout
        outputs, importance = [], []
        for model in self._each():
            if self.sets:
                changed = without_layers(model, inputs, self.how, self.sets, readout)
            else:
                changed = UNITS[self.units](model, inputs, self.how, readout).flatten(0, -3)
            outputs.append(torch.cat([readout.of_logits(model(**inputs).logits)[None], changed]).float())
            if self.importance:
                importance.append(head_importance(model, inputs, partial(self.score.losses, batch)).flatten(1))
        nothing = torch.zeros(len(batch.mask), 0, device=self.device)
        return {
            "outputs": torch.stack(outputs).permute(2, 0, 1, 3),  # (batch, model, baseline and units, output)
            "importance": torch.stack(importance).mean(0) if importance else nothing,
        }

    def _each(self) -> Iterable[PreTrainedModel]:
        return cast(Iterable[PreTrainedModel], self.models)  # torch knows them as modules

    def on_test_epoch_end(self) -> None:
        _, labels, outputs, importance = self.seen.rows().values()
        found = outputs.permute(1, 2, 0, 3).cpu().numpy()  # (model, unit, example, output)
        weights = resampled(len(labels), self.replicates, self.seed)
        gold, whole = labels.cpu().numpy(), np.ones((len(labels), 1))
        scores = np.stack([self.score.of(one, gold, whole)[:, 0] for one in found])
        drawn = np.stack([self.score.of(one, gold, weights) for one in found])
        changes, drawn_changes = (scores[:, 1:] - scores[:, :1]).mean(0), (drawn[:, 1:] - drawn[:, :1]).mean(0)
        low, high = np.percentile(drawn_changes, LEVEL, axis=1)
        self.found = {
            "baseline": float(scores[:, 0].mean()),
            "scores": scores[:, 1:].mean(0),
            "changes": changes,
            "low": low,
            "high": high,
            "mean": [float(changes.mean()), *map(float, np.percentile(drawn_changes.mean(0), LEVEL))],
            "drawn": drawn_changes,
            "p": holm(p_of_changes(changes, drawn_changes).tolist()),
            "deviation": (scores[:, 1:] - scores[:, :1]).std(0, ddof=1) if len(scores) > 1 else None,
            "held_out": held_out_best(self.score.of, found, gold, self.score.better, self.replicates, self.seed),
            "importance": importance.double().mean(0).cpu().numpy() if self.importance else None,
            "examples": len(labels),
        }
        self.log_dict({f"test/{name}": float(value) for name, value in self._metrics().items()})
        self.seen.reset()

    def _metrics(self) -> dict[str, float]:
        found = self.found
        gains = self.score.better * found["changes"]
        metrics = {
            "baseline": found["baseline"],
            "best_change": self.score.better * float(gains.max()),
            "worst_change": self.score.better * float(gains.min()),
            "mean_change": float(found["changes"].mean()),
            "share_that_gains": 100 * float((gains > 0).mean()),
        }
        if found["importance"] is not None and np.ptp(found["changes"]) > 0:
            ranks: Any = spearmanr(found["importance"], -gains)
            metrics["importance_rank_correlation"] = float(ranks.statistic)
        return metrics

    def findings(self) -> Findings:
        found = self.found
        names = [self._name(index) for index in range(len(found["changes"]))]
        rows = [
            {
                "disabled": name,
                "score": float(found["scores"][index]),
                "change": float(found["changes"][index]),
                "low": float(found["low"][index]),
                "high": float(found["high"][index]),
                "p_holm": found["p"][index],
                "n": found["examples"],
            }
            | ({"deviation_over_checkpoints": float(found["deviation"][index])} if found["deviation"] is not None else {})
            for index, name in enumerate(names)
        ]
        rows.sort(key=lambda row: -self.score.better * row["change"])
        differing = [row for row in rows if row["low"] > 0 or row["high"] < 0]
        ends = differing if len(differing) <= 2 * SHOWN_ENDS else differing[:SHOWN_ENDS] + differing[-SHOWN_ENDS:]
        tables = {"gains": self._gains(rows), "disabled": rows, "best_and_worst": ends, "sweep": [self._facts()]}
        note, chosen = [how_many_differ(len(differing), len(rows), self.units)], [CHOSEN.format(self.units)]
        if self.units == "layers":
            tables |= {} if self.sets else {"layers": self._layers()}
            return Findings(tables=tables, notes={"best_and_worst": note, "layers": note, "gains": chosen})
        notes = {"best_and_worst": note, "gains": chosen}
        alone = Findings(tables=tables, heads=by_name(self._head_values()), notes=notes)
        if self.frames is None:
            return alone
        numbers = found["changes"], found["drawn"], self.heads, found["examples"]
        return joined([alone, frames_beside_changes(self.frames, *numbers, self.score.better)])

    def _gains(self, rows: Sequence[Row]) -> list[Row]:
        """What the paper tells of all units: the best, the mean of all, and how many gain; of layers, the first too."""
        found, unit = self.found, self.units.removesuffix("s")
        mean, low, high = found["mean"]
        ends = {"n": found["examples"]}
        gaining = [row for row in rows if self.score.better * row["change"] > 0]
        beyond = sum(row["low"] > 0 or row["high"] < 0 for row in gaining)
        told = ("disabled", "change", "low", "high", "p_holm")
        first = [row for row in rows if row["disabled"] == "layer 1"] if self.units == "layers" else []
        return [
            {"row": f"best {unit}", **{key: rows[0][key] for key in told}, **ends},
            *(
                [{"row": f"best {unit}, held out", **self._best_held_out(found["held_out"]), **ends}]
                if found["held_out"]
                else []
            ),
            *({"row": "layer 1", **{key: one[key] for key in told}, **ends} for one in first),
            {"row": f"mean over all {self.units}", "disabled": "each", "change": mean, "low": low, "high": high, **ends},
            {"row": f"{self.units} that gain", "disabled": f"{len(gaining)} of {len(rows)}", **ends},
            {"row": f"{self.units} that gain beyond their interval", "disabled": f"{beyond} of {len(rows)}", **ends},
        ]

    def _best_held_out(self, best: HeldOut) -> Row:
        """What the two halves chose, and what it changes on the half that did not choose it."""
        low, high = map(float, np.percentile(best.drawn, LEVEL))
        names = " and ".join(dict.fromkeys(map(self._name, best.chosen)))
        return {"disabled": names, "change": best.change, "low": low, "high": high, "p_holm": best.p}

    def _facts(self) -> Row:
        return {
            "units": self.units,
            "how": self.how,
            "metric": self.score.metric,
            "baseline": self.found["baseline"],
            "n": self.found["examples"],
            "importance_rank_correlation": self._metrics().get("importance_rank_correlation"),
            "checkpoints": len(self.models),
            "path": " and ".join(sorted({path_of(model, self.readout) for model in self._each()})),
        }

    def _name(self, index: int) -> str:
        if self.sets:
            return f"layer{'s' * (len(self.sets[index]) > 1)} {', '.join(map(str, self.sets[index]))}"
        return head_at(index, self.heads) if self.units == "heads" else f"layer {index + 1}"

    def _layers(self) -> list[Row]:
        """One row per layer, in order: heads.csv is about heads only."""
        names = {"change": "changes", "low": "low", "high": "high"}
        return [
            {"layer": layer + 1} | {name: float(self.found[key][layer]) for name, key in names.items()}
            | {"n": self.found["examples"]}
            for layer in range(self.layers)
        ]  # fmt: skip

    def _head_values(self) -> Iterator[HeadValues]:
        shape = (self.layers, self.heads)
        yield HeadValues(
            self.score.change,
            value=self.found["changes"].reshape(shape).tolist(),
            n=np.full(shape, self.found["examples"]).tolist(),
            low=self.found["low"].reshape(shape).tolist(),
            high=self.found["high"].reshape(shape).tolist(),
            p=np.reshape(self.found["p"], shape).tolist(),
        )
        if self.found["importance"] is not None:
            yield HeadValues(self.score.importance, self.found["importance"].reshape(shape).tolist())


def how_many_differ(count: int, of: int, units: str) -> str:
    """How many heads or layers change the score by more than their interval, beside how many would by chance."""
    if not count:
        return f"no {units.removesuffix('s')} differs from the baseline beyond its 95 % interval"
    return f"{count} of {of} {units} differ from the baseline beyond their 95 % interval ({CHANCE * of:.1f} would by chance)"
