"""Which pattern each head shows on how many inputs (Kovaleva, section 4.1), as a trained network sees it."""

from collections.abc import Mapping, Sequence
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headscope.analysis.base import Analysis, flat_maps
from headscope.analysis.pattern_examples import example_rows, most_confident, no_examples, surest_maps, surest_of_tasks
from headscope.analysis.statistics import interval, poisson_weights, require_replicates
from headscope.contracts import ChildRun, Classifier, Facts, Findings, HeadValues, Quantity, Row, Section, by_name
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.data_modules.patterns.labels import CLASSES, one_class_notes
from headscope.errors import ConfigError, InputError, require_least
from headscope.layout import Layout
from headscope.published import figures_of

SECTION = Section("patterns", "attention patterns")
ABSTAINED = "abstained"
TUNED = "tuned_"
BOUND = "test/tuned_heterogeneous"
OUTCOMES = (*CLASSES, ABSTAINED)
CAUSAL = "the classifier learnt from maps of encoders; those of this causal model have nothing above the diagonal"


class PatternShares(Analysis):
    """The share of inputs on which a head's map has each pattern: every map has one of the five, the likeliest.

    Beside them, the share of maps of whose class the network is less sure than `confidence`. The classifier
    gives the probability of each class for maps, the mask of real tokens and their classes. The map of each class that it
    is surest of, among inputs of at most `example_tokens` tokens, is kept for a picture.
    """

    kind = ("glue", "segments", "treebank_tokens")
    counts: Tensor
    sure: Tensor
    inputs: Tensor
    no_number: Tensor
    resampled_counts: Tensor
    resampled_inputs: Tensor
    examples: Tensor

    def __init__(
        self,
        facts: Facts,
        classifier: nn.Module,
        confidence: float = 0.5,
        replicates: int = 200,
        seed: int = 0,
        example_tokens: int = 64,
    ) -> None:
        super().__init__(facts)
        if not 0 <= confidence <= 1:
            raise ConfigError(f"analyses: confidence={confidence}: expected a probability.")
        self.classifier, self.confidence = classifier.eval().requires_grad_(False), confidence
        self.replicates, self.seed = require_replicates(replicates), seed
        self.models = ("", TUNED) if facts.tuned else ("",)
        self.strange = [CAUSAL] if facts.layout.causal else []
        maps = self.layers * self.heads
        self.add_sum("counts", len(self.models), len(OUTCOMES), maps)
        self.add_sum("sure", len(self.models), maps)
        self.add_sum("inputs")
        self.add_sum("no_number")
        self.add_sum("resampled_counts", replicates, len(self.models), len(OUTCOMES), maps, dtype=torch.float32)
        self.add_sum("resampled_inputs", replicates)
        self.tokens, self.token_names = require_least("analyses.patterns.example_tokens", example_tokens), facts.token_names
        none = no_examples(len(self.models), len(CLASSES), tokens=example_tokens)
        self.add_state("examples", none, dist_reduce_fx=most_confident)

    def update(self, batch: AttentionBatch) -> None:
        weights = poisson_weights(batch.input_index, self.replicates, self.seed)
        compared = [flat_maps(batch), *([] if len(self.models) == 1 else [batch.flat_tuned_maps()])]
        for index, maps in enumerate(compared):
            sure, found, outcomes = self._outcomes(maps, batch.mask, batch.gold["token_class"])
            new = surest_maps(maps, sure, found, batch, len(CLASSES), self.tokens)
            self.examples[index] = most_confident(torch.stack([self.examples[index], new]))
            self.no_number += (~sure.isfinite()).sum()
            self.counts[index] += outcomes.sum(0, dtype=torch.float64)
            self.sure[index] += sure.sum(0, dtype=torch.float64)
            self.resampled_counts[:, index] += (weights @ outcomes.flatten(1)).unflatten(1, outcomes.shape[1:])
        self.inputs += len(batch.mask)
        self.resampled_inputs += weights.sum(1)

    def _outcomes(
        self,
        maps: Float[Tensor, "batch map query key"],
        real: Bool[Tensor, "batch token"],
        classes: Int[Tensor, "batch token"],
    ) -> tuple[Float[Tensor, "batch map"], Int[Tensor, "batch map"], Float[Tensor, "batch outcome map"]]:
        """How sure the network is of each map, its class, and as ones among zeros class, then whether it would abstain."""
        sure, found = cast(Classifier, self.classifier).probabilities(maps, real, classes).max(-1)
        numbers = torch.arange(len(CLASSES), device=found.device)
        classes = found[:, None] == numbers[:, None]
        return sure, found, torch.cat([classes, (sure < self.confidence)[:, None]], 1).to(sure.dtype)

    def compute(self) -> Findings:
        if self.no_number:
            raise InputError(f"analyses: {int(self.no_number)} attention maps hold NaN, so that they have no pattern.")
        shares = self.counts / self.inputs
        low, high = interval(self.resampled_counts.double(), self.resampled_inputs[:, None, None, None])
        counted = self.grid(self.inputs.expand(shares.shape[-1]))
        heads = [
            HeadValues(
                pattern_share(model, name),
                value=self.grid(shares[m, n]),
                n=counted,
                low=self.grid(low[m, n]),
                high=self.grid(high[m, n]),
            )
            for m, model in enumerate(self.models)
            for n, name in enumerate(OUTCOMES)
        ]
        heads += [
            HeadValues(pattern_confidence(model), self.grid(self.sure[m] / self.inputs), counted)
            for m, model in enumerate(self.models)
        ]
        means = shares.reshape(len(self.models), len(OUTCOMES), self.layers, self.heads).mean(-1)
        names = [model.rstrip("_") or "model" for model in self.models]
        rows = layer_rows(means, names, int(self.inputs))
        return Findings(
            metrics={
                f"{model}{name}": 100 * float(means[m, n].mean())
                for m, model in enumerate(self.models)
                for n, name in enumerate(OUTCOMES)
            },
            tables={"patterns_by_layer": rows},
            heads=by_name(heads),
            notes={"patterns_by_layer": [*self.strange, *uniform_notes([row for row in rows if row["layer"] == "all"])]},
            drawings={
                "pattern_examples": example_rows(self.examples, names, CLASSES, self.heads, self.tokens, self.token_names)
            },
        )


def pattern_share(model: str, name: str) -> Quantity:
    """How often a head shows a pattern; `model` is the prefix of the second model's quantities, or nothing."""
    return Quantity(
        f"{model}pattern:{name}",
        f"share of {name.replace('_', ' ')} maps" + (", fine-tuned" if model else ""),
        "The same share in the fine-tuned model."
        if model
        else f"Share of inputs whose map the classifier calls {name.replace('_', ' ')}."
        if name != ABSTAINED
        else "Share of inputs of whose map's class the classifier is not sure; the map is counted in its class too.",
        better="high",
        section=SECTION,
        one_of=f"{model}pattern" if name != ABSTAINED else f"{model}no_pattern",
        which=name,
    )


def pattern_confidence(model: str) -> Quantity:
    """How sure the classifier is of a head's maps."""
    text = "How sure the classifier of patterns is of its class, on average."
    return Quantity(
        f"{model}pattern_confidence",
        "confidence of the pattern" + (", fine-tuned" if model else ""),
        "The same in the fine-tuned model." if model else text,
        section=SECTION,
    )


def layer_rows(means: Float[Tensor, "model outcome layer"], models: list[str], inputs: int) -> list[Row]:
    """The shares of each layer's maps, in percent, with the number of inputs; then those of all layers."""
    rows = []
    for model, shares in zip(models, 100 * means, strict=True):
        whole = {str(n): column for n, column in enumerate(shares.unbind(1), start=1)} | {"all": shares.mean(1)}
        rows += [
            {"model": model, "layer": layer, **dict(zip(OUTCOMES, column.tolist(), strict=True)), "n": inputs}
            for layer, column in whole.items()
        ]
    return rows


def uniform_notes(rows: Sequence[Row]) -> list[str]:
    """A line for each row of shares of all maps, of a task or a model, in which nearly all are of one class."""
    notes = []
    for row in rows:
        maps = "the maps" if row["model"] == "model" else "the fine-tuned model's maps"
        maps += f" of {row['task']}" if "task" in row else ""
        notes += one_class_notes({name: row[name] / 100 for name in CLASSES}, "the classifier", maps)
    return notes


def joined_tasks(parts: Sequence[ChildRun]) -> Findings:
    """Several tasks as one (Figure 2): the shares of all maps of each task and model, and those of each layer."""
    by_layer = [{"task": part.value, **row} for part in parts for row in part.results.tables["patterns_by_layer"]]
    whole = [{key: row[key] for key in ("task", "model", *OUTCOMES, "n")} for row in by_layer if row["layer"] == "all"]
    published = {part.value: figures_of(part.results.provenance).get(BOUND) for part in parts}
    rows = [  # the paper's is of fine-tuned models
        {**row, "heterogeneous, published bound": published[row["task"]] if row["model"] == "tuned" else None}
        for row in whole
    ]
    names = {"model": "", "tuned": "tuned "}
    strange = [CAUSAL] if any(Layout.from_json(part.results.provenance.layout).causal for part in parts) else []
    meanings = {name: quantity for part in parts for name, quantity in part.results.quantities.items()}
    return Findings(
        metrics={f"{names[row['model']]}{row['task']} heterogeneous": row["heterogeneous"] for row in rows},
        tables={"summary": rows, "patterns_by_layer": by_layer},
        heads=mean_heads([row for part in parts for row in part.heads], meanings),
        notes=dict.fromkeys(("summary", "patterns_by_layer"), [*strange, *uniform_notes(rows)]),
        drawings={
            "pattern_examples": surest_of_tasks(
                {part.value: part.results.drawings.get("pattern_examples") or () for part in parts}
            )
        },
    )


def mean_heads(rows: Sequence[Row], meanings: Mapping[str, Quantity]) -> dict[str, HeadValues]:
    """Every quantity of each head over the inputs of all tasks together."""
    sums: dict[str, dict[tuple[int, int], list[float]]] = {}
    for row in rows:
        cell = sums.setdefault(row["quantity"], {}).setdefault((int(row["layer"]), int(row["head"])), [0.0, 0.0])
        cell[0] += float(row["n"]) * float(row["value"])
        cell[1] += float(row["n"])
    return {
        name: HeadValues(
            meanings[name],
            _grid({head: total / inputs for head, (total, inputs) in cells.items()}),
            _grid({head: inputs for head, (_, inputs) in cells.items()}),
        )
        for name, cells in sums.items()
    }


def _grid(cells: Mapping[tuple[int, int], float]) -> list[list[float]]:
    layers, heads = (max(axis) for axis in zip(*cells, strict=True))
    return [[cells[layer, head] for head in range(1, heads + 1)] for layer in range(1, layers + 1)]
