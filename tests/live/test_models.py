"""What a served model answers, against the model itself run by hand."""

import base64

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertForMaskedLM, GPT2LMHeadModel

from headscope.contracts import EncoderSpec
from headscope.errors import InputError
from headscope.live.models import BEST, MOST_TOKENS, LiveModel, TooLong

PAIR = ("The cats sat.", "They slept.")


@pytest.fixture
def live(tiny_folder):
    return lambda kind: LiveModel(EncoderSpec(str(tiny_folder(kind))))


def maps_of(answer, layers=3, heads=4):
    tokens = len(answer["sentence"]["tokens"])
    packed = np.frombuffer(base64.b64decode(answer["sentence"]["maps"]), np.uint8)
    return (packed.reshape(layers, heads, tokens, tokens) / 255) ** 2


def shares(answer, column="value", group=0):
    return {row["label"]: row[column] for row in answer["prediction"]["groups"][group]["rows"]}


def test_a_classifier_s_answer_is_its_own_and_without_a_head_that_of_zeroed_weights(live, tiny_folder):
    folder = tiny_folder("classes")
    model = AutoModelForSequenceClassification.from_pretrained(folder, attn_implementation="eager").eval()
    inputs = AutoTokenizer.from_pretrained(folder)(*PAIR, return_tensors="pt")
    with torch.inference_mode():
        whole = model(**inputs, output_attentions=True)
        size = model.config.hidden_size // 4
        # A head that brings nothing: the columns of the output projection that read it are zero.
        model.bert.encoder.layer[1].attention.output.dense.weight[:, 2 * size : 3 * size] = 0
        cut = model(**inputs, output_attentions=True)
    answer = live("classes").answer(PAIR)
    assert answer["sentence"]["text"] == "The cats sat. | They slept."
    np.testing.assert_allclose(maps_of(answer), torch.stack(whole.attentions)[:, 0], atol=0.005)
    assert shares(answer) == pytest.approx(named(whole.logits[0].softmax(-1)))
    assert set(shares(answer, "before").values()) == {None}
    answer = live("classes").answer(PAIR, [[2, 3]], "zero")
    assert shares(answer) == pytest.approx(named(cut.logits[0].softmax(-1)))
    assert shares(answer, "before") == pytest.approx(named(whole.logits[0].softmax(-1)))
    maps = maps_of(answer)
    assert (maps[1, 2] == 0).all()
    np.testing.assert_allclose(maps[2], cut.attentions[2][0], atol=0.005)
    assert np.abs(maps[2] - whole.attentions[2][0].numpy()).max() > 0.01


def named(probabilities):
    return dict(zip(("different", "same"), probabilities.tolist(), strict=True))


def test_a_disabled_head_attends_alike_and_the_next_answer_is_as_before(live):
    model = live("classes")
    before, without = model.answer(PAIR), model.answer(PAIR, [[1, 1]])
    np.testing.assert_allclose(maps_of(without)[0, 0], 1 / len(before["sentence"]["tokens"]), atol=0.005)
    assert model.answer(PAIR) == before


def test_masked_tokens_get_the_most_likely_words(live, tiny_folder):
    model = BertForMaskedLM.from_pretrained(tiny_folder("masked")).eval()
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder("masked"))
    text = "The [MASK] sat on the [MASK]."
    with torch.inference_mode():
        logits = model(**tokenizer(text, return_tensors="pt")).logits[0]
    answer = live("masked").answer([text])
    assert [group["title"] for group in answer["prediction"]["groups"]] == ["[MASK] at token 3", "[MASK] at token 7"]
    for number, place in enumerate((2, 6)):
        best = logits[place].softmax(-1).topk(BEST)
        rows = answer["prediction"]["groups"][number]["rows"]
        assert [row["label"] for row in rows] == [tokenizer.decode([index]) for index in best.indices.tolist()]
        assert [row["value"] for row in rows] == pytest.approx(best.values.tolist(), rel=1e-4)
    assert live("masked").answer(["No gap here."])["prediction"] == {"kind": "masked", "groups": [], "mask": "[MASK]"}


def test_a_causal_model_predicts_the_next_token(live, tiny_folder):
    model = GPT2LMHeadModel.from_pretrained(tiny_folder("next")).eval()
    inputs = live("next").tokenizer("Once upon a time", return_tensors="pt")
    with torch.inference_mode():
        best = model(**inputs).logits[0, -1].softmax(-1).topk(BEST)
    rows = live("next").answer(["Once upon a time"])["prediction"]["groups"][0]["rows"]
    assert [row["value"] for row in rows] == pytest.approx(best.values.tolist(), rel=1e-4)


def test_a_score_and_an_output_that_moves(live):
    answer = live("score").answer(["A cat."], [[1, 2]])
    assert answer["prediction"]["kind"] == "score" and set(shares(answer)) == {"score"}
    assert shares(answer) != shares(answer, "before")
    model = live("output")
    assert model.answer(["A cat."])["prediction"]["groups"] == []
    moved = shares(model.answer(["A cat."], [[2, 1], [3, 2]]))["cosine"]
    encoding = model.tokenizer("A cat.")
    one, other = (model.encoder.look(encoding, heads).states.mean(0) for heads in ((), [(2, 1), (3, 2)]))
    assert moved == pytest.approx(float(one @ other / one.norm() / other.norm()), abs=1e-6) and moved < 1


def test_what_cannot_be_answered_is_one_sentence(live, tiny_folder):
    with pytest.raises(TooLong, match=f"has 302 tokens; up to {MOST_TOKENS} are shown here"):
        live("classes").answer(["word " * 300])
    with pytest.raises(InputError, match="its weights are not those that the atlas was made with"):
        LiveModel(EncoderSpec(str(tiny_folder("classes"))), "0" * 64)
