from dataclasses import replace

import pytest
import torch

from headscope.analysis.importance import CLASSES, TargetImportance, published_sentences
from tests.analysis.conftest import HEADS, LAYERS

LENGTHS = [6, 3]
TOKEN_CLASSES = torch.tensor([[1, 0, 3, 2, 0, 2], [1, 0, 2, -100, -100, -100]])
COLUMNS = {"sep": [[3, 5], [2]], "punctuation": [[2], []], "other": [[0, 1, 4], [0, 1]]}


def test_the_mean_cell_by_class_of_the_target_equals_a_plain_loop(facts, random_batch):
    batch = random_batch(LENGTHS, {"token_class": TOKEN_CLASSES})
    metric = TargetImportance(replace(facts, kind="segments", maps="gradients"))
    metric.update(batch)
    heads = metric.compute().heads
    for name in CLASSES:
        for layer in range(LAYERS):
            for head in range(HEADS):
                means = []
                for n, (length, columns) in enumerate(zip(LENGTHS, COLUMNS[name], strict=True)):
                    cells = [float(batch.maps[n, layer, head, i, j]) for i in range(length) for j in columns]
                    means += [sum(cells) / len(cells)] if cells else []
                found = heads[f"importance_of_{name}"]
                assert found.value[layer][head] == pytest.approx(sum(means) / len(means), abs=1e-7)
                assert found.n[layer][head] == len(means)


def test_the_paper_s_sentence_from_layer_five_on_by_hand():
    grids = {"importance_of_sep": torch.tensor([[4.0, 4.0]] * 4 + [[1.0, 3.0], [1.0, 1.0]])}
    grids["importance_of_other"] = torch.tensor([[9.0, 9.0]] * 4 + [[6.0, 6.0]] * 2)
    rows = published_sentences(grids)
    assert [row["ours"] for row in rows] == pytest.approx([1.5 / 4, 1.5 / 6])
    assert published_sentences({name: grid[:4] for name, grid in grids.items()}) == []
