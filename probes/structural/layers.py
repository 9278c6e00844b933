"""The layer that the structural probe reads best, chosen on validation sentences; the join of its runs."""

from collections.abc import Sequence

from headscope.contracts import ChildRun, Findings, Row
from headscope.published import figures_of


def chosen_layer(parts: Sequence[ChildRun], monitor: str = "val/uuas", metric: str = "test/uuas") -> Findings:
    """Every layer's scores; the test score told is that of the layer with the best validation score, which is named."""
    scored = [(part.results.metrics.get(monitor), part) for part in parts]
    best = max(range(len(scored)), key=lambda at: -1.0 if scored[at][0] is None else float(scored[at][0] or 0))
    rows: list[Row] = [
        {
            "layer": int(part.value),
            "validation": value,
            "test": part.results.metrics.get(metric),
            "chosen": "yes" if at == best else "",
            "n": part.results.provenance.examples.get("test"),
        }
        for at, (value, part) in enumerate(scored)
    ]
    chosen = scored[best][1]
    published = figures_of(chosen.results.provenance).get(metric)
    said = f"layer {chosen.value}, chosen on validation"
    summary: list[Row] = [
        {"metric": metric, "ours": rows[best]["test"], "published": published, "layer": said, "inputs": rows[best]["n"]}
    ]
    metrics = {monitor: rows[best]["validation"], metric: rows[best]["test"], "layer": int(chosen.value)}
    return Findings(metrics, {"summary": summary, "layers": rows})
