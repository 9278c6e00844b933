"""Labelled maps computed again: against the model's own attentions; wrong encoders, heads and inputs; maps to label."""

from dataclasses import replace

import pytest
import torch
from transformers import AutoModel

from headscope.data_modules.patterns.labels import MapName
from headscope.data_modules.patterns.maps import pattern_maps, require_finite
from headscope.data_modules.patterns.sampling import GROUPS, draw_maps
from headscope.data_modules.readers.glue import SAMPLE, TASKS, read_tsv
from headscope.errors import InputError


@pytest.fixture
def encoder(random_encoder):
    return random_encoder("bert")


def named(encoder, task="mrpc", example=0, layer=1, head=1):
    return MapName("tiny", encoder.checksum(), task, "val", example, layer, head)


def test_maps_are_those_of_the_model_with_what_stands_at_their_axes(encoder):
    names = [named(encoder, "mrpc", 2, 3, 4), named(encoder, "sst2", 1, 1, 2), named(encoder, "mrpc", 2, 1, 1)]
    found = {one.name: one for one in pattern_maps(names, {"tiny": encoder})}
    assert found.keys() == set(names)
    model, tokenizer = AutoModel.from_pretrained(encoder.folder, attn_implementation="eager").eval(), encoder.tokenizer()
    for name in names:
        task = TASKS[name.task]
        texts = read_tsv(SAMPLE / task.folder / task.dev_file, task, None)[name.example].words
        encoding = tokenizer(*texts, return_tensors="pt")
        with torch.no_grad():
            expected = model(**encoding, output_attentions=True).attentions[name.layer - 1][0, name.head - 1]
        torch.testing.assert_close(found[name].weights, expected, atol=1e-5, rtol=0)
        tokens = tokenizer.convert_ids_to_tokens(encoding["input_ids"][0])
        assert found[name].tokens == tokens
        kinds = {"[CLS]": 1, "[SEP]": 2, ".": 3, ",": 3}
        assert found[name].special.tolist() == [kinds.get(token, 0) for token in tokens]
        assert found[name].sentence.max() == len(texts) - 1
        assert (found[name].sentence == -1).sum() == len(texts) + 1


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"encoder": "other"}, "the table of labels names the encoder other; known are tiny."),
        ({"sha256": "0" * 64}, "the table of labels is for another encoder: tiny has the sha256 "),
        ({"sha256": "f" * 65}, "the table of labels is for another encoder: tiny has the sha256 "),
        ({"example": 400}, "mrpc val: has no example 400, which the table of labels names."),
        ({"layer": 4}, "tiny: has no head 4-1, which the table of labels names."),
        ({"head": 0}, "tiny: has no head 1-0, which the table of labels names."),
    ],
)
def test_what_the_table_names_and_is_not_there(encoder, change, sentence):
    with pytest.raises(InputError) as caught:
        list(pattern_maps([named(encoder), replace(named(encoder), **change)], {"tiny": encoder}))
    assert str(caught.value).startswith(sentence)


def test_a_map_with_nan_is_named(encoder):
    with pytest.raises(InputError, match="^tiny: the map of head 1-1 on mrpc 0 holds NaN.$"):
        require_finite(torch.tensor([[1.0, torch.nan], [0.5, 0.5]]), named(encoder))


def test_maps_to_label_come_in_groups_that_share_neither_head_nor_input(random_encoder):
    encoders = {"one": random_encoder("bert", seed=1, name="a"), "two": random_encoder("bert", seed=2, name="b")}
    heads = encoders["one"].heads
    drawn = draw_maps(encoders, {"mrpc": 10, "sst2": 10}, 40, seed=4)
    assert drawn == draw_maps(encoders, {"mrpc": 10, "sst2": 10}, 40, seed=4)
    assert len(set(drawn)) == len(drawn)
    size = len(drawn) // (GROUPS - 1 if heads < GROUPS else GROUPS)
    assert {name.encoder for name in drawn} == {"one", "two"}
    groups = [drawn[start : start + size] for start in range(0, len(drawn), size)]
    for n, group in enumerate(groups):
        for other in groups[n + 1 :]:
            assert not {name.head_index for name in group} & {name.head_index for name in other}
            assert not {name.input for name in group} & {name.input for name in other}
