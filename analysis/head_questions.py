"""Questions that need several analyses of one model: do roles agree with patterns, and do heads with a role matter more?"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from jaxtyping import Bool, Float
from scipy.stats import fisher_exact, spearmanr

from headscope.analysis.statistics import holm
from headscope.contracts import Row

Grid = Sequence[Sequence[float | None]]  # (layer, head)
ROLE, SCORE, CLASS, CHANGE = "role:", "sieve:", "pattern:", "change_without_head"
NO_CLASS = "abstained"  # the classifier was not sure
AGREEMENT_HOW = (
    "Heads with a sieve role against heads whose most frequent pattern, of maps that the classifier was sure of, is the "
    "class: Cohen's kappa, Fisher's exact test (two-sided, Holm over all pairs that can be tested), rank correlation of "
    "the role's score with the class's share."
)
ABLATION_HOW = (
    "Mean change of the task's score when a head with the role is disabled, against heads of the same layers without it: "
    "roles are permuted within layers ({draws} draws, two-sided, Holm over roles); the interval holds every effect that "
    "this test, before Holm, does not reject at 5 %, and is left empty where no effect could be rejected."
)
REJECTED = 0.05
ROUNDING = 1e-12  # two sums of the same numbers in another order count as equal


def columns(labels: Mapping[str, str], names: Sequence[str] = (), ps: Sequence[str] = ()) -> list[dict[str, str]]:
    """The columns of an answer's rows as a table shows them: key, label, and the kind of those with names or p-values."""
    kinds = dict.fromkeys(names, "name") | dict.fromkeys(ps, "p")
    return [{"key": key, "label": label, **({"kind": kinds[key]} if key in kinds else {})} for key, label in labels.items()]


# What is said of each question wherever it is shown, whether or not it can be answered; a chart names columns.
AGREEMENT: dict[str, Any] = {
    "title": "Do the roles agree with the pattern classes?",
    "caption": "Roles and classes",
    "columns": columns(
        {
            "role": "role",
            "class": "class",
            "heads_with_role": "heads with role",
            "heads_with_class": "heads with class",
            "both": "both",
            "expected": "expected",
            "kappa": "kappa",
            "odds_ratio": "odds ratio",
            "spearman": "spearman",
            "p": "p",
            "p_holm": "p (Holm)",
        },
        names=("role", "class"),
        ps=("p", "p_holm"),
    ),
    "sort": "p_holm",
    "chart": {
        "kind": "matrix",
        "caption": "Kappa of each role and class; in the cells, heads with both (expected)",
        "down": "role",
        "across": "class",
        "colour": "kappa",
        "range": [-1, 1],
        "text": "both",
        "beside": "expected",
        "p": "p_holm",
    },
    "reading": (
        "“both” counts heads that have the role and the class, “expected” what chance would give. Kappa is 0 at chance and "
        "1 when the two name the same heads; an odds ratio above 1 says that the role makes the class more likely. "
        "✱ marks p < 0.05 after Holm's correction."
    ),
}
ABLATION: dict[str, Any] = {
    "title": "Do heads with a role cost more when they are disabled?",
    "caption": "Disabling heads, by role",
    "columns": columns(
        {
            "role": "role",
            "heads": "heads",
            "heads_compared": "heads compared",
            "mean_change": "mean change",
            "matched_mean_change": "matched mean change",
            "difference": "difference",
            "low": "low",
            "high": "high",
            "p": "p",
            "p_holm": "p (Holm)",
        },
        names=("role",),
        ps=("p", "p_holm"),
    ),
    "sort": "difference",
    "chart": {
        "kind": "dots with intervals",
        "caption": "Change without a head of the role, minus that of matched heads, with its interval",
        "name": "role",
        "count": "heads",
        "value": "difference",
        "low": "low",
        "high": "high",
        "p": "p_holm",
        "axis": "difference of the changes",
    },
    "reading": (
        "a difference below zero says that losing a head with this role costs more than losing a matched head without it; "
        "an interval that crosses zero leaves it open."
    ),
}


def role_pattern_agreement(grids: Mapping[str, Grid]) -> dict[str, Any]:
    """Every role beside every class of pattern: how many heads have both, and how many would by chance.

    Comes with what a page needs to show it: title, columns, chart, and the verdict in words.
    """
    roles = with_prefix(grids, ROLE)
    classes = {name: grid for name, grid in with_prefix(grids, CLASS).items() if name != NO_CLASS}
    missing = [what for what, found in (("roles", roles), ("patterns", classes)) if not found]
    if missing:
        return unanswered(AGREEMENT, missing)
    shares = np.stack([array(grid) for grid in classes.values()])
    known = ~np.isnan(shares).any(0)
    most_frequent = np.where(shares.max(0) > 0, shares.argmax(0), -1)  # none where all maps were abstained from
    rows = []
    for role, grid in roles.items():
        has_role = array(grid)[known] > 0
        for index, name in enumerate(classes):
            row = overlap(has_role, most_frequent[known] == index)
            rows.append({"role": role, "class": name, **row, "spearman": _spearman(grids.get(SCORE + role), shares[index])})
    rows = with_holm(rows)
    pairs = [
        f"{words(row['role'])} with {words(row['class'])} ({row['both']} heads, {number(row['expected'])} expected)"
        for row in rejected(rows)
    ]
    verdict = after_holm(pairs, "No pair is beyond chance")
    return {**AGREEMENT, "rows": rows, "n": int(known.sum()), "how": AGREEMENT_HOW, "verdict": verdict}


def overlap(one: Bool[np.ndarray, "head"], other: Bool[np.ndarray, "head"]) -> Row:
    """How far two properties of heads agree; None where one is had by no head or by all."""
    n, both = len(one), int((one & other).sum())
    ones, others = int(one.sum()), int(other.sum())
    row = {"heads_with_role": ones, "heads_with_class": others, "both": both, "expected": ones * others / n if n else None}
    if not (0 < ones < n and 0 < others < n):
        return {**row, "kappa": None, "odds_ratio": None, "p": None}
    table = [[both, ones - both], [others - both, n - ones - others + both]]
    odds, p = cast(tuple[float, float], fisher_exact(table))
    by_chance = (ones * others + (n - ones) * (n - others)) / n**2
    agreeing = (table[0][0] + table[1][1]) / n
    kappa = (agreeing - by_chance) / (1 - by_chance)
    return {**row, "kappa": float(kappa), "odds_ratio": float(odds) if np.isfinite(odds) else None, "p": float(p)}


def ablation_by_role(grids: Mapping[str, Grid], draws: int = 10_000, seed: int = 0) -> dict[str, Any]:
    """For every role, the change of the score without a head that has it, beside that without a head that lacks it.

    Comes with what a page needs to show it: title, columns, chart, and the verdict in words.
    """
    roles = with_prefix(grids, ROLE)
    missing = [what for what, found in (("roles", roles), ("disabled heads", CHANGE in grids)) if not found]
    if missing:
        return unanswered(ABLATION, missing)
    changes = array(grids[CHANGE])
    orders = orders_within_layers(np.isfinite(changes), draws, np.random.default_rng(seed))
    rows = [{"role": role, **role_effect(changes, array(grid) > 0, orders)} for role, grid in roles.items()]
    rows = with_holm(rows)
    roles_found = [f"{words(row['role'])} ({number(row['difference'], '+')})" for row in rejected(rows)]
    verdict = after_holm(roles_found, "No role differs from its matched heads")
    how = ABLATION_HOW.format(draws=f"{draws:,}")
    return {**ABLATION, "rows": rows, "n": int(np.isfinite(changes).sum()), "how": how, "verdict": verdict}


def role_effect(changes: Float[np.ndarray, "layer head"], has: Bool[np.ndarray, "layer head"], orders: np.ndarray) -> Row:
    """The difference between heads with and without a role, matched by layer; its test, and the interval of that test."""
    weights, counted = layer_contrast(has, np.isfinite(changes))
    changes = np.nan_to_num(changes)
    row = {"heads": int(has.sum()), "heads_compared": int((has & counted).sum())}
    if not counted.any():
        names = ("mean_change", "matched_mean_change", "difference", "low", "high", "p")
        return {**row, **dict.fromkeys(names)}
    mean = float((weights * changes)[has].sum())
    difference = float((weights * changes).sum())
    drawn = permuted(changes, orders) @ weights.ravel()
    as_far = np.abs(drawn) >= abs(difference) - ROUNDING * np.abs(changes).max()
    low, high = effects_not_rejected(difference, drawn, permuted(has.astype(float), orders) @ weights.ravel())
    return row | {
        "mean_change": mean,
        "matched_mean_change": mean - difference,
        "difference": difference,
        "low": low,
        "high": high,
        "p": float((1 + as_far.sum()) / (1 + len(drawn))),
    }


def effects_not_rejected(
    difference: float, drawn: Float[np.ndarray, "draw"], kept: Float[np.ndarray, "draw"]
) -> tuple[float | None, float | None]:
    """The ends of the effects that, taken off the heads with the role, leave a difference that the test does not reject.

    An effect e leaves `difference - e`, and in each draw `drawn - kept * e`: the draw is as far for all e between the two
    where both are equally far, which lie on either side of the difference. None where the test cannot reject.
    """
    needed = int(REJECTED * (1 + len(drawn)))  # draws as far that keep an effect
    same = np.abs(kept) > 1 - ROUNDING  # the same heads, or their opposite: as far whatever the effect
    if same.sum() >= needed:
        return None, None
    drawn, kept = drawn[~same], kept[~same]
    apart = np.stack([difference - drawn, difference + drawn])
    apart[np.abs(apart) <= ROUNDING * np.abs(drawn).max()] = 0  # so that a draw as far as no effect counts for no effect
    ends = np.sort(apart / np.stack([1 - kept, 1 + kept]), axis=0)
    index = needed - int(same.sum()) - 1
    return float(np.sort(ends[0])[index]), float(np.sort(ends[1])[-1 - index])


def layer_contrast(has: Bool[np.ndarray, "layer head"], known: np.ndarray | bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Weights whose sum over changes is the matched difference, and the heads of layers that have both kinds.

    A layer counts by its heads with the role; within it, heads with the role are averaged, and those without it.
    """
    has, lacks = has & known, ~has & known
    with_role, without = has.sum(1, keepdims=True), lacks.sum(1, keepdims=True)
    counted = (with_role > 0) & (without > 0)
    share = np.where(counted, with_role, 0) / max(1, with_role[counted].sum())
    weights = has * share / np.maximum(1, with_role) - lacks * share / np.maximum(1, without)
    return weights, counted & known


def orders_within_layers(known: Bool[np.ndarray, "layer head"], draws: int, random: np.random.Generator) -> np.ndarray:
    """For each draw, the heads of every layer in a random order, those not known where they are: (draw, layer, head)."""
    orders = np.tile(np.arange(known.shape[1]), (draws, len(known), 1))
    keys = random.random(orders.shape, dtype=np.float32)
    for layer, row in enumerate(known):
        positions = np.flatnonzero(row)
        orders[:, layer, positions] = positions[keys[:, layer, positions].argsort(-1)]
    return orders


def permuted(values: Float[np.ndarray, "layer head"], orders: np.ndarray) -> Float[np.ndarray, "draw cell"]:
    """The values with the heads of each layer in the order of each draw."""
    return np.take_along_axis(values[None], orders, 2).reshape(len(orders), -1)


def with_holm(rows: Sequence[Row]) -> list[Row]:
    """The rows with Holm's correction over those that have a p-value."""
    corrected = iter(holm([row["p"] for row in rows if row["p"] is not None]))
    return [{**row, "p_holm": None if row["p"] is None else next(corrected)} for row in rows]


def with_prefix(grids: Mapping[str, Grid], prefix: str) -> dict[str, Grid]:
    """The quantities of a kind, by what follows it in their names."""
    return {name.removeprefix(prefix): grid for name, grid in grids.items() if name.startswith(prefix)}


def rejected(rows: Sequence[Row]) -> list[Row]:
    """The rows whose test, after Holm's correction, rejects chance."""
    return [row for row in rows if row["p_holm"] is not None and row["p_holm"] < REJECTED]


def after_holm(found: Sequence[str], nothing: str) -> str:
    """The verdict on a question: what was found, or that nothing was."""
    return f"After Holm's correction: {'; '.join(found)}." if found else f"{nothing} after Holm's correction."


def words(name: str) -> str:
    """A name as text."""
    return name.replace("_", " ")


def number(value: float, sign: str = "") -> str:
    """Three digits, with a real minus sign; `sign` is + where a plus is to be shown too."""
    return f"{value:{sign}.3g}".replace("-", "−")


def unanswered(question: Mapping[str, Any], missing: Sequence[str]) -> dict[str, Any]:
    """A question without an answer says why."""
    why = f"needs {' and '.join(missing)}, which this atlas does not have."
    return {**question, "rows": [], "n": 0, "how": None, "why": why}


def array(grid: Grid) -> Float[np.ndarray, "layer head"]:
    """The grid as numbers, NaN for what is not known."""
    return np.array(grid, dtype=float)


def _spearman(scores: Grid | None, shares: Float[np.ndarray, "layer head"]) -> float | None:
    if scores is None:
        return None
    known = np.isfinite(array(scores)) & np.isfinite(shares)
    one, other = array(scores)[known], shares[known]
    if len(one) < 2 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return None
    return float(cast(Any, spearmanr(one, other)).statistic)
