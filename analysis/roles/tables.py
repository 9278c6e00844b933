"""What the roles of all heads look like together."""

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
from scipy.stats import norm, spearmanr

from headscope.analysis.roles.tests import (
    FINE,
    Tested,
    coarse_roles,
    fine_roles,
    fisher_holm,
    moments,
    role_p_values,
)
from headscope.analysis.statistics import FOLDS
from headscope.contracts import Row, head_at

TAUS = tuple(np.arange(1, 6.01, 0.25).tolist())
THIRDS = ("first", "middle", "last")
LAST_LAYERS = 3
# The paper finds that nsubj goes with next, and dobj with prev.
RELATIONS, POSITIONS = ("nsubj", "dobj", "amod", "advmod"), ("prev", "next")
BY_FORMULA, RELEASED = "paper", "released, × entropy"


def of_models(
    rows: Callable[..., list[Row]], tested: Mapping[str, Tested], said: Mapping[str, str], *more: Any
) -> list[Row]:
    """The rows of each model; where there are two, they say of which."""
    named = len(tested) > 1
    first = {model: {"model": said[model]} if named else {} for model in tested}
    return [{**first[model], **row} for model, one in tested.items() for row in rows(one, *more)]


def metrics(tested: Tested) -> dict[str, float]:
    """Shares in percent, over the four coarse roles unless the name says that they are of the fine ones."""
    known = np.isfinite(tested.p_values).any(1)
    shares = np.where(known, 100 * tested.assigned.mean(1), np.nan)
    found: dict[str, float] = {f"share_{name}": float(share) for name, share in zip(tested.names, shares, strict=True)}
    coarse, fine = tested.assigned[tested.coarse], tested.assigned[tested.fine]
    everything, p_values = tested.everything(), tested.p_values[tested.coarse]
    p_values = p_values[np.isfinite(p_values)]
    found["share_none"] = float(100 * (~coarse.any(0)).mean())
    found["mean_score"] = float(everything.mean()) if everything.size else float("nan")
    between = (p_values > 0.05) & (p_values < 0.95)
    found["p_values_between_5_and_95_percent"] = float(100 * between.mean()) if p_values.size else float("nan")
    if {"local", "syntactic"} <= set(tested.names):
        local, syntactic = tested.rows_of(["local", "syntactic"])
        both = tested.assigned[local] & tested.assigned[syntactic]
        has = tested.assigned[syntactic].sum()
        found["syntactic_that_are_local"] = float(100 * both.sum() / has) if has else float("nan")
        scores = tested.means[local], tested.means[syntactic]
        found["local_syntactic_spearman"] = float(cast(Any, spearmanr(*scores)).statistic)
    found["above_tau_that_fail"] = int(tested.fails_above(tested.coarse).sum())
    if tested.fine:
        found["fine_above_tau_that_fail"] = int(tested.fails_above(tested.fine).sum())
        found["share_of_several_fine_roles"] = float(100 * (fine.sum(0) > 1).mean())
    if "delimiter" in tested.names:
        last = slice(-LAST_LAYERS * tested.heads, None)
        found["delimiter_heads"] = int(tested.has("delimiter").sum())
        found["delimiter_only_in_last_three_layers"] = float(100 * delimiter_only(tested)[last].mean())
    return found


def delimiter_only(tested: Tested) -> np.ndarray:
    """Which heads have the delimiter role and no other of the four."""
    return tested.has("delimiter") & (tested.assigned[tested.coarse].sum(0) == 1)


def role_rows(tested: Tested, min_count: int, highest_possible: np.ndarray) -> list[Row]:
    """How many heads have each role; `possible` is the mean over inputs of the highest score that a head could have.

    `highest_held_out` is the score that the highest head of one half of the inputs has on the other half.
    """
    rows = []
    for index, name in enumerate(tested.names):
        known, enough = tested.counts[index] > 1, tested.counts[index] >= min_count
        means = tested.means[index]
        rows.append(
            {
                "role": name,
                "kind": kind_of(name, tested.names),
                "heads": int(tested.assigned[index].sum()) if known else None,
                "share": float(100 * tested.assigned[index].mean()) if known else None,
                "mean_score": float(means.mean()) if known else None,
                "highest": float(means.max()) if enough else None,
                "highest_head": head_at(int(means.argmax()), tested.heads) if enough else None,
                "highest_held_out": held_out_score(tested, index) if enough else None,
                "possible": float(highest_possible[index]) if known else None,
                "above_permuted": above_permuted(tested, index) if known else None,
                "n": int(tested.counts[index]),
            }
        )
    return rows


def held_out_score(tested: Tested, role: int) -> float | None:
    """The mean score, over both halves of the inputs, of the head that is highest on the other half; None without two."""
    defined = tested.defined[:, role]
    halves = [tested.scores[half::FOLDS, :, role][defined[half::FOLDS]] for half in range(FOLDS)]
    if not all(map(len, halves)):
        return None
    totals = [half.sum(0) for half in halves]
    return float(sum(totals[half][totals[1 - half].argmax()] for half in range(FOLDS)) / defined.sum())


def above_permuted(tested: Tested, role: int) -> int | None:
    """How many heads score higher than every so many shuffles; None without shuffles."""
    return int((tested.permuted[role] <= tested.test.level).sum()) if len(tested.shuffled) else None


def kind_of(name: str, names: list[str]) -> str:
    """Which counts a role has a part in."""
    coarse, fine = name in coarse_roles(names), name in FINE
    return "coarse, fine" if coarse and fine else "coarse" if coarse else "fine" if fine else "further"


def layer_rows(tested: Tested) -> list[Row]:
    """For each layer, how many heads have each role; none or only delimiter of the four; several of the nine.

    A role that no input has, as block on single sentences, has no score: None, since zero would say too much.
    """
    layers = tested.assigned.reshape(len(tested.names), -1, tested.heads)
    coarse, fine = layers[tested.coarse], layers[tested.fine]
    scored = np.asarray(np.isfinite(tested.p_values).any(1))

    def count(name: str, layer: int) -> int | None:
        role = tested.names.index(name)
        return int(layers[role, layer].sum()) if scored[role] else None

    rows = []
    for layer in range(layers.shape[1]):
        row: Row = {"layer": layer + 1}
        known = coarse_roles(tested.names)
        row |= {name: count(name, layer) for name in known}
        row["none"] = int((~coarse[:, layer].any(0)).sum())
        if "delimiter" in tested.names:
            row["delimiter_only"] = int(delimiter_only(tested).reshape(-1, tested.heads)[layer].sum())
        if tested.fine:
            row["several_fine"] = int((fine[:, layer].sum(0) > 1).sum())
        others = [name for name in fine_roles(tested.names) if name not in known]
        row |= {name: count(name, layer) for name in others}
        rows.append(row)
    return rows


def overlap_rows(tested: Tested) -> list[Row]:
    """How many heads have exactly each combination of the coarse roles."""
    rows: dict[tuple[str, ...], int] = {}
    for head in range(tested.assigned.shape[1]):
        combination = tuple(name for name in coarse_roles(tested.names) if tested.has(name)[head])
        rows[combination] = rows.get(combination, 0) + 1
    ordered = sorted(rows.items(), key=lambda item: (-item[1], item[0]))
    return [{"roles": " & ".join(combination) or "none", "heads": count} for combination, count in ordered]


def fine_overlap_rows(tested: Tested) -> list[Row]:
    """How many heads of each relation's role look back or ahead too; p is Fisher's, one-sided, Holm over the rows."""
    rows, counted = [], []
    for relation in RELATIONS:
        for position in POSITIONS:
            if not {relation, position} <= set(tested.names) or tested.counts[tested.names.index(relation)] < 2:
                continue
            one, other = tested.has(relation), tested.has(position)
            both = int((one & other).sum())
            counted.append([[both, int((one & ~other).sum())], [int((~one & other).sum()), int((~one & ~other).sum())]])
            share = 100 * both / int(one.sum()) if one.any() else None
            rows.append({"role": relation, "with": position, "heads": int(one.sum()), "both": both, "share": share})
            rows[-1]["share_of_all"] = float(100 * other.mean())
    return [{**row, "p_holm": p} for row, p in zip(rows, fisher_holm(counted), strict=True)]


def failed_rows(tested: Tested) -> list[Row]:
    """The heads and roles whose mean lies above the threshold, but whose test fails; the highest mean first."""
    roles = sorted({*tested.coarse, *tested.fine})
    found = [(tested.means[role, index], role, index) for role, index in np.argwhere(tested.fails_above(roles))]
    return [
        {
            "role": tested.names[role],
            "kind": kind_of(tested.names[role], tested.names),
            "head": head_at(int(index), tested.heads),
            "mean_score": float(mean),
            "deviation": float(tested.deviations[role, index]),
            "p": float(tested.corrected[role, index]),
            "n": int(tested.counts[role]),
        }
        for mean, role, index in sorted(found, reverse=True)
    ]


def assigned_rows(tested: Tested) -> list[Row]:
    """The roles of each head."""
    names = np.array(tested.names)
    return [
        {"head": head_at(index, tested.heads), "roles": names[tested.assigned[:, index]].tolist()}
        for index in range(tested.assigned.shape[1])
    ]


def tau_rows(tested: Tested) -> list[Row]:
    """The share of heads that get each role, as the threshold moves."""
    return [{"tau": tau, **tested.shares_at(tau)} for tau in TAUS]


def quantile_rows(tested: Tested) -> list[Row]:
    """The distribution of the scores of all heads, coarse roles and inputs, as points of its cumulative function."""
    everything = tested.everything()
    if not everything.size:
        return []
    shares = np.linspace(0, 1, 101)
    values, mean = np.quantile(everything, shares), float(everything.mean())
    return [{"share": float(s), "score": float(value), "mean": mean} for s, value in zip(shares, values, strict=True)]


def histogram_rows(tested: Tested) -> list[Row]:
    """How many p-values of the coarse roles lie in each twentieth of the way from 0 to 1."""
    p_values = tested.p_values[tested.coarse]
    counts, edges = np.histogram(p_values[np.isfinite(p_values)], bins=20, range=(0, 1))
    ends = zip(edges, edges[1:], counts, strict=False)
    return [{"from": float(low), "to": float(high), "count": int(n)} for low, high, n in ends]


def head_histogram(tested: Tested) -> list[Row]:
    """How the scores of one head for one role are spread over inputs (Figure 2).

    It is the pair with the highest mean of those above the threshold whose test fails; the highest of all where none fails.
    """
    means = np.where(tested.counts[:, None] > 1, tested.means, np.nan)
    if not np.isfinite(means).any():
        return []
    failed = tested.fails_above(sorted({*tested.coarse, *tested.fine}))
    role, index = np.unravel_index(np.nanargmax(np.where(failed, means, np.nan) if failed.any() else means), means.shape)
    counts, edges = np.histogram(tested.scores[tested.defined[:, role], index, role], bins=20)
    what = {"head": head_at(int(index), tested.heads), "role": tested.names[role], "fails": bool(failed.any())}
    what |= {"mean": float(means[role, index]), "p": float(tested.corrected[role, index])}
    return [{**what, "from": float(edges[n]), "to": float(edges[n + 1]), "count": int(c)} for n, c in enumerate(counts)]


def before_after_rows(before: Tested, after: Tested) -> list[Row]:
    """How many heads have each role before and after fine-tuning, and how many lose or gain it."""
    rows = []
    for index, name in enumerate(before.names):
        if before.counts[index] < 2:
            continue
        old, new = before.assigned[index], after.assigned[index]
        row = {"role": name, "kind": kind_of(name, before.names), "before": int(old.sum()), "after": int(new.sum())}
        row |= {"lost": int((old & ~new).sum()), "gained": int((~old & new).sum())}
        rows.append({**row, "n": int(before.counts[index])})
    return rows


def third_rows(before: Tested, after: Tested, layers: int) -> list[Row]:
    """The mean change of each role's score in the first, middle and last third of the layers, with intervals over inputs."""
    parts = np.array_split(np.arange(layers), 3)
    change = (after.scores - before.scores).reshape(len(before.scores), layers, before.heads, -1)
    rows = []
    for role, name in enumerate(before.names):
        row: Row = {"role": name, "kind": kind_of(name, before.names)}
        ends: Row = {}
        for third, part in zip(THIRDS, parts, strict=True):
            inputs = change[before.defined[:, role]][..., role][:, part]
            means = inputs.mean((1, 2)) if len(part) else np.empty(0)
            row[third] = float(means.mean()) if means.size else None
            half = float(norm.isf(0.025) * means.std(ddof=1) / np.sqrt(len(means))) if means.size > 1 else None
            ends |= {f"{third}_low": None if half is None else row[third] - half}
            ends |= {f"{third}_high": None if half is None else row[third] + half}
        rows.append({**row, **ends, "n": int(before.counts[role])})
    return rows


def block_rows(tested: Tested, scores: np.ndarray, released: bool, possible: float, uniform: float) -> list[Row]:
    """The block role by the paper's formula and by the released one; the scores' last column is the one not tested above."""
    role, test = tested.names.index("block"), tested.test
    defined = tested.defined[:, [role]]
    rows = []
    for name, column in ((BY_FORMULA, -1 if released else role), (RELEASED, role if released else -1)):
        means, deviations, counts = moments(scores[:, :, [column]], defined, test.ddof)
        p_values = role_p_values(means, deviations, counts[:, None], test.tau, test.distribution)
        row = {"score": name, "heads": int((p_values < test.level).sum()), "mean_score": float(means.mean())}
        row |= {"highest": float(means.max()), "highest_head": head_at(int(means.argmax()), tested.heads)}
        row |= {"uniform_head": 1.0 if name == BY_FORMULA else uniform, "possible": possible if name == BY_FORMULA else None}
        rows.append({**row, "n": int(counts[0])})
    return rows


def block_note(rows: list[Row], tau: float) -> str:
    """Where the published block heads come from."""
    possible, uniform = rows[0]["possible"], rows[1]["uniform_head"]
    reach = "so that no head can reach" if possible <= tau else "and reaches"
    return (
        f"block: by the paper's formula a score is at most {possible:.2f} here (two sentences, times the tokens of an input "
        f"over those in its sentences), {reach} tau = {tau:g}; the released code multiplies by the row's entropy, by which "
        f"even a head that attends uniformly gets {uniform:.2f}: the published block heads come from there"
    )
