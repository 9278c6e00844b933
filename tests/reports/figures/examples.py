"""A run of every kind of figure, with heads of any number: values by formula, names as long as real ones."""

import math

from headscope.reports.figures.bars import relation_recall, row_bars, start_bars
from headscope.reports.figures.clusters import MOSTLY, head_plane
from headscope.reports.figures.comparison import difference_heatmaps, head_scatters
from headscope.reports.figures.coreference import coreference_lines, coreference_rows
from headscope.reports.figures.disabling import disabled_heatmap
from headscope.reports.figures.drawing import head_heatmaps
from headscope.reports.figures.features import feature_heatmaps
from headscope.reports.figures.frames import example_maps
from headscope.reports.figures.language import loss_by_frequency
from headscope.reports.figures.lines import table_lines
from headscope.reports.figures.pattern_examples import pattern_examples
from headscope.reports.figures.patterns import PATTERNS, classifier_figures, pattern_shares
from headscope.reports.figures.relations import attention_lines, relation_chart, relation_heatmaps
from headscope.reports.figures.role_tasks import BROAD
from headscope.reports.figures.role_tasks import SHARES as ROLE_SHARES
from headscope.reports.figures.roles import FINE, role_figures
from headscope.reports.figures.structure import structure_by_length
from headscope.reports.figures.surface import example_heads, importance_by_layer, surface_by_layer
from headscope.reports.figures.sweeps import parallel_coordinates
from headscope.reports.figures.tasks import disabled_panels, feature_panels, task_panels
from tests.reports.figures.drawn import head_rows, quantity, results

WORDS = ("The", "representatives", "who", "had", "met", "us", "gave", "it", "to", "$", "5", "and", "$", "10", "collectors")
RELATIONS = ("all", "nsubj", "nmod:poss", "aux:pass", "compound:prt", "acl:relcl")
FEATURES = ("noun", "verb", "negation", "cls", "sep")
TASKS = ("mrpc", "stsb", "sst2", "rte")
SHARES = dict(zip(PATTERNS, (45.0, 20.0, 10.0, 5.0, 20.0, 5.0), strict=True))


def wave(layer, head):
    """A number between 0 and 1 of each head."""
    return 0.5 + 0.5 * math.sin(3 * layer + 7 * head)


def heads(layers, width):
    return [(layer, head) for layer in range(1, layers + 1) for head in range(1, width + 1)]


def grids(layers, width):
    named = [quantity("entropy", "entropy (nats)", "nats"), quantity("w", "probe's weight, dependent to head")]
    rows = head_rows(["entropy"], layers, width, wave) + head_rows(["w"], layers, width, lambda la, he: wave(la, he) - 0.5)
    return head_heatmaps, {"quantities": named}, rows, {"sections": ["probe"]}


def surface(layers, width):
    names = [*MOSTLY.values(), "attention_to_current", "sep_to_sep", "others_to_sep", "entropy", "cls_entropy"]
    uniform = [{"quantity": "attention_to_sep", "uniform": 0.016}, {"quantity": "entropy", "uniform": 0.9}]
    return surface_by_layer, {"tables": {"uniform": uniform}}, head_rows(names, layers, width, wave), {}


def kinds_of_heads(layers, width):
    words = ["[CLS]", *WORDS, "[SEP]"]
    weights = [[wave(row, column) / 9 for column in range(len(words))] for row in range(len(words))]
    found = [
        {"what": what, "head": f"{layers}-{width}", "value": 0.9, "words": words, "attention": weights}
        for what in ("broad", "next token", "[SEP]", "periods and commas")
    ]
    return example_heads, {"drawings": {"example_heads": found}}, [], {}


def importance(layers, width):
    names = ["importance_of_sep", "importance_of_punctuation", "importance_of_other"]
    return importance_by_layer, {}, head_rows(names, layers, width, wave), {}


def clusters(layers, width):
    rows = head_rows(["mds_x"], layers, width, lambda la, he: math.cos(la + 5 * he) * la)
    rows += head_rows(["mds_y"], layers, width, lambda la, he: math.sin(la + 5 * he) * la)
    rows += head_rows([*MOSTLY.values()], layers, width, lambda la, he: wave(la, he) ** 20)
    rows += head_rows(["entropy"], layers, width, wave)
    marked = [{"relation": name, "head": f"{layers - n}-{width - n}"} for n, name in enumerate(RELATIONS[:4])]
    return head_plane, {"tables": {"marked_relations": marked}}, rows, {}


def relation_table(layers, width):
    return [
        {"relation": name, "head": f"{layers}-{width - n}", "direction": "dependent_to_head", "accuracy": 80.0 - 9 * n,
         "held_out": 79.0 - 9 * n,
         "held_out_low": 75.0 - 9 * n, "held_out_high": 84.0 - 9 * n, "baseline": 50.0 - 8 * n, "offset": 1, "n": 1200,
         "published": "dobj 8-10 86.8 (40.0, -2)" if n == 2 else None}
        for n, name in enumerate(RELATIONS)
    ]  # fmt: skip


def chart(layers, width):
    return relation_chart, {"tables": {"relation_heads": relation_table(layers, width)}}, [], {}


def relations(layers, width):
    ways = ("dependent_to_head", "head_to_dependent")
    rows = head_rows([f"relation:nmod:poss:{way}" for way in ways], layers, width, lambda la, he: 90 * wave(la, he))
    return relation_heatmaps, {"tables": {"relation_heads": relation_table(layers, width)[2:3]}}, rows, {}


def attention():
    return [[wave(row, column) / len(WORDS) for column in range(len(WORDS))] for row in range(len(WORDS))]


def sentence(layers, width):
    drawing = {"relation": "nsubj", "head": f"{layers}-{width}", "direction": "dependent_to_head", "words": list(WORDS),
               "links": [[3, 5], [2, 8]], "attention": attention()}  # fmt: skip
    return attention_lines, {"drawings": {"attention_lines": [drawing]}}, [], {}


def frames(layers, width):
    tokens = ["[CLS]", *WORDS, "[SEP]"]
    weights = [[wave(row, column) / 9 for column in range(len(tokens))] for row in range(len(tokens))]
    example = {"head": f"{layers}-{width}", "frame": "Intentionally_affect", "tokens": tokens, "attention": weights,
               "marked": {"target": [8], "element": [2, 10]}}  # fmt: skip
    return example_maps, {"drawings": {"example_maps": [example]}}, [], {}


def coreference(layers, width):
    names = ("nearest mention", "same head word", "rules", "best head, among mentions", "best head, among all words")
    kinds = ("all", "pronoun", "proper", "nominal")
    cells = [
        {"row": row, "kind": kind, "accuracy": 20.0 + 9 * r + 3 * k, "low": 15.0 + 9 * r, "high": 33.0 + 9 * r, "n": 1309}
        for r, row in enumerate(names)
        for k, kind in enumerate(kinds)
    ]
    published = [None, None, "69 (70/77/60)", "5-4 65 (64/73/58)", None]
    table = [
        {"row": row, "head": f"{layers}-{width}" if "best" in row else None, "published": text}
        for row, text in zip(names, published, strict=True)
    ]
    return coreference_rows, {"tables": {"coreference_intervals": cells, "coreference": table}}, [], {}


def mentions(layers, width):
    words = list(WORDS[:8])
    weights = [[wave(row, column) if column < row else 0.0 for column in range(8)] for row in range(8)]
    drawing = {"head": f"{layers}-{width}", "words": words, "attention": weights, "links": [[5, 1], [7, 5]]}
    return coreference_lines, {"drawings": {"coreference_lines": [drawing]}}, [], {}


def disabled(layers, width):
    facts = {"units": "heads", "how": "uniform", "metric": "f1", "baseline": 87.6}
    rows = head_rows(
        ["change_without_head"], layers, width, lambda la, he: wave(la, he) - 0.5,
        low=lambda la, he: wave(la, he) - 0.9, high=lambda la, he: wave(la, he) - 0.1,
    )  # fmt: skip
    return disabled_heatmap, {"tables": {"sweep": [facts]}}, rows, {}


def disabled_layers(layers, width):
    facts = {"units": "layers", "how": "mean", "metric": "accuracy", "baseline": 60.0}
    rows = [{"layer": la, "change": 1.0 - la, "low": -0.5 - la, "high": 2.5 - la, "n": 9} for la in range(1, layers + 1)]
    return disabled_heatmap, {"tables": {"sweep": [facts], "layers": rows}}, [], {}


def features(layers, width):
    names = [*(f"attention_to_{name}" for name in FEATURES), "verb_subject_forward", "verb_subject_backward"]
    rows = head_rows([f"{model}{name}" for model in ("", "tuned_") for name in names], layers, width, wave)
    rows += head_rows([f"change_{name}" for name in names], layers, width, lambda la, he: wave(la, he) - 0.4)
    return feature_heatmaps, {}, rows, {}


def tasks_drift(layers, width):
    names = [f"cosine:{task}" for task in TASKS]
    named = [quantity(f"cosine:{task}", f"cosine after fine-tuning, {task}", section="drift_of_tasks") for task in TASKS]
    return task_panels, {"tasks": TASKS, "quantities": named}, head_rows(names, layers, width, wave), {"sections": ["drift"]}


def tasks_features(layers, width):
    about = [f"tuned_{kind}_{feature}" for kind in ("attention_to", "cls_to") for feature in FEATURES]
    rows = head_rows([f"{name}:{task}" for name in about for task in TASKS], layers, width, wave)
    return feature_panels, {"tasks": TASKS}, rows, {}


def tasks_disabled(layers, width):
    facts = [{"task": task, "units": "heads", "how": "uniform", "metric": "f1", "baseline": 87.6} for task in TASKS]
    rows = head_rows(
        [f"change_without_head:{task}" for task in TASKS], layers, width, lambda la, he: wave(la, he) - 0.5,
        low=lambda la, he: wave(la, he) - 0.9, high=lambda la, he: wave(la, he) - 0.1,
    )  # fmt: skip
    return disabled_panels, {"tasks": TASKS, "tables": {"sweep": facts}}, rows, {}


def classifier(layers, width):
    names = [name for name in PATTERNS if name != "abstained"]
    confusion = [{"label": name, **{other: 120 if other == name else 3 for other in names}} for name in names]
    reliable = [{"confidence": n / 10, "accuracy": n / 11, "maps": 5 * n} for n in range(3, 11)]
    scores = [{"row": "CNN", "class": name, "f1": 0.9 - n / 20, "maps": 9} for n, name in enumerate(names)]
    own = dict.fromkeys(names[:-1], 0.8) | {names[-1]: None}
    away = [{"not learnt from": name, "f1": 0.8, **own, "n": 500} for name in ("minilm", "e5-small", "stories15m, causal")]
    tables = {"confusion": confusion, "reliability": reliable, "classes": scores, "transfer": away}
    levels = [[255 if x == y else 20 for x in range(16)] for y in range(16)]
    shown = [
        {"family": family, "class": name, "encoder": f"{family}+mrpc", "head": "10-11", "special": [0, 15], "levels": levels}
        for family in ("e5-small", "minilm", "mpnet")
        for name in names[: 3 if family == "mpnet" else 5]
    ]
    return classifier_figures, {"tables": tables, "drawings": {"examples": shown}, "metrics": {"f1": 0.87}}, [], {}


def pattern_heads(layers, width):
    return head_rows(
        [f"{model}pattern:{name}" for model in ("", "tuned_") for name in PATTERNS],
        layers,
        width,
        lambda la, he: la / layers,
    )


def patterns(layers, width):
    rows = [
        {"model": model, "layer": layer, **SHARES}
        for model in ("model", "tuned")
        for layer in [*map(str, range(1, layers + 1)), "all"]
    ]
    return pattern_shares, {"tables": {"patterns_by_layer": rows}}, pattern_heads(layers, width), {}


def pattern_tasks(layers, width):
    tasks = ("mrpc", "stsb", "sst2", "qqp", "rte", "qnli", "mnli")
    summary = [
        {"task": task, "model": model, **SHARES, "heterogeneous, published bound": 61.0 if model == "model" else None}
        for task in tasks
        for model in ("model", "tuned")
    ]
    rows = [{**row, "layer": layer} for row in summary for layer in [*map(str, range(1, layers + 1)), "all"]]
    return pattern_shares, {"tables": {"patterns_by_layer": rows, "summary": summary}}, [], {}


def pattern_maps(layers, width):
    """Short maps with their tokens, long ones with ticks alone, and a class without any; then long ones of all classes."""

    def one(model, name, size):
        cells = [[(1 + (row * column) % 5) / 10 for column in range(size)] for row in range(size)]
        tokens = ["[CLS]", *(f"token{n}" for n in range(size - 2)), "[SEP]"]
        return {"model": model, "class": name, "confidence": 0.987, "head": f"{layers}-{width}", "input": 1234,
                "tokens": tokens, "special": [0, size - 1], "attention": cells, "task": "stsb"}  # fmt: skip

    sizes = {"vertical": 9, "diagonal": 16, "vertical_diagonal": 64, "block": 17}
    rows = [one("model", name, size) for name, size in sizes.items()]
    rows += [one("tuned", name, 40) for name in list(PATTERNS)[:-1]]  # whose captions must not meet the titles below
    return pattern_examples, {"drawings": {"pattern_examples": rows}}, [], {}


def roles(layers, width):
    broad, fine = list(BROAD), list(FINE)
    assigned = [
        {"model": model, "head": f"{la}-{he}", "roles": fine[: (la * he + shift) % 10]}
        for model, shift in (("tuned", 0), ("model", 5))
        for la, he in heads(layers, width)
    ]
    by_layer = [
        {
            "model": model,
            "layer": layer,
            **{role: (layer * n) % width for n, role in enumerate(broad)},
            "several_fine": layer,
        }
        for model in ("tuned", "model")
        for layer in range(1, layers + 1)
    ]
    overlap = [{"roles": "none", "heads": 90}] + [{"roles": " & ".join(broad[:n]), "heads": 40 - n} for n in range(1, 5)]
    own = {"head": f"{layers}-1", "role": "cls", "fails": True, "mean": 3.2, "p": 0.21}
    tables = {
        "by_layer": by_layer,
        "score_quantiles": [{"score": n / 2, "share": n / 20, "mean": 3.42} for n in range(21)],
        "head_histogram": [{"from": n, "to": n + 1, "count": 9 - n, **own} for n in range(9)],
        "p_histogram": [{"from": n / 20, "count": 10 ** (n % 4)} for n in range(20)],
        "overlap": overlap,
        "assigned": assigned,
        "tau_curve": [{"tau": n / 2, **dict.fromkeys(broad, 100.0 / n)} for n in range(1, 12)],
        "change_by_third": [
            {"role": role, "first": 0.1, "first_low": 0.05, "first_high": 0.15, "middle": -0.2, "last": None}
            for role in ("prev", "delimiter", "syntactic")
        ],
    }
    return role_figures, {"tables": tables, "metrics": {"test/tau": 3.0}}, [], {}


def role_tasks(layers, width):
    _, found, _, _ = roles(layers, width)
    tasks = ("qnli", "qqp", "mrpc", "sst2")
    summary = [
        {"metric": metric, "model": model, **{task: 10.0 * (n + k) for k, task in enumerate(tasks)}, "mean": 10.0 * n + 15,
         "published": {"share_delimiter": 73.43, "syntactic_that_are_local": "70.9 (42.1 to 88.8)"}.get(metric)
         if model == "tuned" else None}
        for model in ("tuned", "model")
        for n, metric in enumerate(ROLE_SHARES)
    ]  # fmt: skip
    tables = {
        f"{name}_of_tasks": [{"task": task, **row} for task in tasks for row in found["tables"][name]]
        for name in ("by_layer", "change_by_third")
    }
    return role_figures, {"tables": {"summary": summary, "roles_of_tasks": [], **tables}}, [], {}


def compared(layers, width):
    runs = ("outputs/a run with a long name", "outputs/another", "outputs/a third run")
    values = [
        {"quantity": "entropy", "layer": la, "head": he} | {run: wave(la + n, he) for n, run in enumerate(runs)}
        for la, he in heads(layers, width)
    ]
    named = [quantity(f"difference:entropy:{run}", "difference of entropy (nats)", "nats") for run in runs[1:]]
    rows = head_rows([one.name for one in named], layers, width, lambda la, he: wave(la, he) - 0.3)
    return {"tables": {"head_values": values}, "quantities": named}, rows


def scatters(layers, width):
    found, rows = compared(layers, width)
    return head_scatters, found, rows, {}


def differences(layers, width):
    found, rows = compared(layers, width)
    return difference_heatmaps, found, rows, {}


def recall(layers, width):
    rows = [{"relation": f"{name}{n}", "recall": 90.0 - n, "count": 2900 - n} for n in range(4) for name in RELATIONS]
    return relation_recall, {"tables": {"relations": rows}}, [], {}


def table(layers, width):
    rows = [
        {
            "row": "Attention and GloVe, with random weights but for the embeddings",
            "ours": 60.0,
            "published": 61,
        },
        {"row": "mnli, pre-trained", "ours": -3.0, "published": None},
    ]
    return row_bars, {"tables": {"summary": rows}}, [], {"title": "Parsing by probes", "label": "right governor (%)"}


def starts(layers, width):
    metrics = {"mrpc": ("f1", "accuracy"), "stsb": ("pearson", "spearman"), "mnli": ("accuracy",)}
    rows = [
        {"row": f"{task}, {start}", "metric": f"test/{name}", "ours": 30.0 * n - 12, "published": 33.3 * n or None}
        for task in metrics
        for n, start in enumerate(("untrained", "normal", "pre-trained"))
        for name in metrics[task]
    ]
    return start_bars, {"tables": {"summary": rows}}, [], {}


def by_layer(layers, width):
    rows = [
        {"layer": n, "validation": 50.0 + n, "test": 49.0 - n, "chosen": "yes" if n == 2 else "", "n": 30}
        for n in range(1, layers + 1)
    ]
    return table_lines, {"tables": {"layers": rows}}, [], {
        "table": "layers", "over": "layer", "title": "Right pairs by layer", "label": "UUAS (%)"
    }  # fmt: skip


def structure(layers, width):
    rows = [
        {"words": words, "uuas": 90.0 - 9 * n, "spearman": 0.9 - n / 10 if n else None, "edges": 90, "sentences": 1000 - n,
         "word_order_uuas": 50.0 - n, "word_order_spearman": 0.5 - n / 10 if n else None}
        for n, words in enumerate(("1–4", "5–9", "10–14", "15–19", "20–29", "30–50"))
    ]  # fmt: skip
    summary = [{"metric": "test/uuas", "ours": 77.0, "published": 80}]
    metrics = {"test/uuas": 77.0, "test/spearman": 0.8, "test/word_order_uuas": 48.9, "test/word_order_spearman": 0.5}
    found = {"tables": {"lengths": rows, "summary": summary}, "metrics": {**metrics, "test/layer": 4.0}}
    return structure_by_length, found, [], {}


def frequencies(layers, width):
    rows = [
        {"times": times, "loss": 11.0 - 2 * n, "unigram_loss": 12.0 - n, "n": 10_000 * n + 5}
        for n, times in enumerate(("never", "1–9", "10–99", "100–999", "1,000+"))
    ]
    return loss_by_frequency, {"tables": {"frequencies": rows}}, [], {}


def jobs(layers, width):
    rows = [
        {"job": n, "val/uas": 0.5 + n / 50, "values": {"module.lr": f"{10.0 ** -(n % 4)}", "data.hidden_layer": str(n % 12),
         "vectors.path": f"/a/very/long/path/to/vectors/{n % 3}.txt", "module.dropout": str(n / 20)}}
        for n in range(13)
    ]  # fmt: skip
    return parallel_coordinates, {"tables": {"jobs": rows}, "metrics": {"val/uas": 0.7}}, [], {}


EXAMPLES = [
    grids, surface, kinds_of_heads, importance, clusters, chart, relations, sentence, frames, coreference, disabled,
    disabled_layers, features, classifier, patterns, pattern_tasks, pattern_maps, roles, role_tasks, scatters, differences,
    recall, table, starts, by_layer, structure, frequencies, jobs, mentions, tasks_drift, tasks_features, tasks_disabled,
]  # fmt: skip


def example(make, layers, width, page, **provenance):
    """The function that draws, the results and head rows that it draws, and its options."""
    draw, found, rows, options = make(layers, width)
    return draw, results(**found, width=page, **provenance), rows, options
