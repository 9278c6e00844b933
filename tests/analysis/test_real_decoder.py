"""A real decoder: relations, entropies and sieves from padded batches equal plain loops over the model's own attention."""

import math
from collections import Counter

import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from headscope.analysis.entropy import row_entropy
from headscope.analysis.relations import RelationHeads
from headscope.analysis.roles import sieves
from headscope.analysis.roles.scores import bias_scores, sieve_weights
from headscope.analysis.surface import SurfacePatterns
from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.data_modules.segments import SegmentDataModule
from headscope.data_modules.treebank import TreebankDataModule


@pytest.fixture
def decoder(shared):
    return shared / "models" / "stories15m"


@pytest.fixture
def own_attention(decoder):
    """The maps of all heads of one input as lists, from the model's own eager attention, without padding."""
    model = AutoModel.from_pretrained(decoder, attn_implementation="eager", dtype=torch.float32).eval()

    def run(ids):
        with torch.no_grad():
            maps = model(torch.tensor([ids]), output_attentions=True).attentions
        return torch.cat(maps).flatten(0, 1).double().tolist()

    return run


def batches(data):
    return [data.on_after_batch_transfer(host, 0) for host in data.test_dataloader()]


def test_relations_are_those_of_pairs_that_the_model_sees(decoder, shared, own_attention, ready):
    file = shared / "data" / "ud_english_ewt" / "dev.conllu"
    data = ready(TreebankDataModule(encoder=FrozenEncoder(str(decoder)), test=str(file), limit=14, batch_tokens=200))
    analysis = RelationHeads(data.facts(), min_count=1, replicates=2)
    for batch in batches(data):
        analysis.update(batch)
    found = analysis.compute()

    tokenizer, right, count, words = AutoTokenizer.from_pretrained(decoder), Counter(), Counter(), 0
    for item in data.read_splits()["test"].items:
        gold = {name: values.tolist() for name, values in item.example.gold.items()}
        encoding = tokenizer(list(item.example.words), is_split_into_words=True)
        pieces = [[t for t, w in enumerate(encoding.word_ids()) if w == word] for word in range(len(item.example.words))]
        for m, grid in enumerate(own_attention(encoding["input_ids"])):
            by_word = [[sum(grid[q][k] for q in one for k in other) / len(one) for other in pieces] for one in pieces]
            for word, (governor, relation) in enumerate(zip(gold["governors"][1:], gold["relations"][1:], strict=True)):
                name = data.read_relations()[relation]
                if governor < 1 or name.partition(":")[0] == "punct":
                    continue
                words += m == 0
                asked = gold["asked"][word + 1] - 1 if name == "nmod:poss" else word
                direction = "dependent_to_head" if governor - 1 <= asked else "head_to_dependent"
                if governor - 1 == asked:
                    continue
                others = [v for v in range(len(pieces)) if v != asked]
                forward = direction == "dependent_to_head"
                weights = {v: by_word[asked][v] if forward else by_word[v][asked] for v in others}
                count[direction, m] += 1
                right[direction, m] += max(weights, key=weights.__getitem__) == governor - 1
    for direction in ("dependent_to_head", "head_to_dependent"):
        values = found.heads[f"relation:all:{direction}"]
        for m in range(36):
            assert values.n[m // 6][m % 6] == count[direction, m]
            assert values.value[m // 6][m % 6] == pytest.approx(100 * right[direction, m] / count[direction, m], abs=1e-4)
    rows = {row["direction"]: row for row in found.tables["visible_governors"] if row["relation"] == "all"}
    for direction, row in rows.items():
        assert row["words"] == words
        assert row["unseen"] == pytest.approx(100 * (1 - count[direction, 0] / words))
    behind, ahead = (100 * (1 - count[direction, 0] / words) for direction in rows)
    told = f"causal model: {behind:.1f} % of all words cannot see their governor, {ahead:.1f} % are not seen by it"
    assert any(line.startswith(told) for line in found.notes["relation_heads"])


def test_entropies_and_sieves_are_over_what_a_token_sees(decoder, own_attention, ready):
    data = ready(SegmentDataModule(encoder=FrozenEncoder(str(decoder)), limit=3, max_pieces=40, batch_tokens=200))
    analysis = SurfacePatterns(data.facts())
    items, entropies, largest, scores = data.read_splits()["test"].items, [], [], {}
    for batch in batches(data):
        analysis.update(batch)
        chosen = torch.stack(
            [sieves.local(batch.gold, batch.mask, []), sieves.special(batch.gold, batch.mask, [], ["cls"])], 1
        )
        by_input = bias_scores(batch.flat_maps(), sieve_weights(chosen, batch.visible())[0])
        scores |= dict(zip(batch.index.tolist(), by_input.tolist(), strict=True))
        assert (
            row_entropy(batch.flat_maps(), batch.visible()) <= batch.visible().sum(2).clamp(min=1).log()[:, None] + 1e-4
        ).all()
    found = analysis.compute()
    for index, item in enumerate(items):
        maps, length = own_attention(item.input_ids.tolist()), len(item.input_ids)
        assert item.example.gold["token_class"].tolist()[0] == 1
        largest.append(sum(math.log(t + 1) for t in range(length)) / length)
        entropies.append([sum(-w * math.log(w) for row in grid for w in row if w > 0) / length for grid in maps])
        for m, grid in enumerate(maps):
            near = [sum(grid[t][max(0, t - 2) : t + 1]) / min(3, t + 1) * (t + 1) for t in range(length)]
            first = [grid[t][0] * (t + 1) for t in range(length)]
            assert scores[index][m] == pytest.approx([sum(near) / length, sum(first) / length], rel=1e-3)
    for m in range(36):
        mean = sum(one[m] for one in entropies) / len(entropies)
        assert found.heads["entropy"].value[m // 6][m % 6] == pytest.approx(mean, abs=1e-4)
    uniform = {row["quantity"]: row["uniform"] for row in found.tables["uniform"]}
    assert uniform["entropy"] == pytest.approx(sum(largest) / len(largest))
    assert found.heads["attention_to_next"].n[0][0] == 0
    assert not any("nan" in str(cell) for row in found.tables["checks"] for cell in row.values())
