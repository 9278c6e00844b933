"""What the roles of all heads look like together."""

import numpy as np

from headscope.contracts import Row, head_at

BROAD_ROLES = ("local", "delimiter", "block", "syntactic")


def broad_roles(names: list[str]) -> list[str]:
    """The paper's four roles, as far as they are there; all names where none is."""
    return [name for name in BROAD_ROLES if name in names] or names


def overlap_rows(assigned: np.ndarray, names: list[str]) -> list[Row]:
    """How many heads have exactly each combination of the broad roles."""
    broad = broad_roles(names)
    rows: dict[tuple[str, ...], int] = {}
    for head in range(assigned.shape[1]):
        combination = tuple(name for name in broad if assigned[names.index(name), head])
        rows[combination] = rows.get(combination, 0) + 1
    ordered = sorted(rows.items(), key=lambda item: (-item[1], item[0]))
    return [{"roles": " & ".join(combination) or "none", "heads": count} for combination, count in ordered]


def quantile_rows(scores: np.ndarray, defined: np.ndarray) -> list[Row]:
    """The distribution of all scores, as points of its cumulative function, with the mean."""
    everything = scores.transpose(0, 2, 1)[defined].ravel()
    if not everything.size:
        return []
    shares = np.linspace(0, 1, 101)
    values = np.quantile(everything, shares)
    mean = float(everything.mean())
    return [
        {"share": float(share), "score": float(value), "mean": mean} for share, value in zip(shares, values, strict=True)
    ]


def head_histogram(scores: np.ndarray, defined: np.ndarray, means: np.ndarray, names: list[str], heads: int) -> list[Row]:
    """How the scores of one head for one role are spread over inputs: the pair with the highest mean."""
    means = np.where(defined.sum(0)[:, None] > 1, means, np.nan)
    if not np.isfinite(means).any():
        return []
    role, index = np.unravel_index(np.nanargmax(means), means.shape)
    counts, edges = np.histogram(scores[defined[:, role], index, role], bins=20)
    what = {"head": head_at(int(index), heads), "role": names[role]}
    return [{**what, "from": float(edges[n]), "to": float(edges[n + 1]), "count": int(c)} for n, c in enumerate(counts)]


def histogram_rows(p_values: np.ndarray) -> list[Row]:
    """How many p-values lie in each twentieth of the way from 0 to 1."""
    counts, edges = np.histogram(p_values[np.isfinite(p_values)], bins=20, range=(0, 1))
    return [
        {"from": float(low), "to": float(high), "count": int(n)}
        for low, high, n in zip(edges, edges[1:], counts, strict=False)
    ]
