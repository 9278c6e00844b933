"""The frozen encoder against transformers' own eager attention."""

import hashlib
import json
import shutil
from functools import partial
from itertools import product

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel

from headscope.contracts import EncoderSpec
from headscope.data_modules.encoders.attention import streamed_attention, weights_go_to
from headscope.data_modules.encoders.frozen import FrozenEncoder, tuned_encoder
from headscope.errors import ConfigError, InputError

STREAMED = ["bert", "roberta", "xlm-roberta", "distilbert", "electra", "albert", "modernbert", "gpt2", "llama"]
OWN = ["mpnet", "deberta-v2"]
WORDS_AND_POSITIONS = {
    "bert": {"embeddings.word_embeddings.weight", "embeddings.position_embeddings.weight"},
    "distilbert": {"embeddings.word_embeddings.weight", "embeddings.position_embeddings.weight"},
    "electra": {"embeddings.word_embeddings.weight", "embeddings.position_embeddings.weight"},
    "albert": {"embeddings.word_embeddings.weight", "embeddings.position_embeddings.weight"},
    "roberta": {"embeddings.word_embeddings.weight", "embeddings.position_embeddings.weight"},
    "mpnet": {"embeddings.word_embeddings.weight", "embeddings.position_embeddings.weight"},
    "modernbert": {"embeddings.tok_embeddings.weight"},
    "gpt2": {"wte.weight", "wpe.weight"},
}
every_architecture = pytest.mark.parametrize("arch", STREAMED + OWN)


@pytest.fixture
def tokens():
    """Ids of 14, 9 and 5 tokens and their attention mask."""
    ids = torch.randint(1000, 2000, (3, 14), generator=torch.Generator().manual_seed(0))
    mask = (torch.arange(14) < torch.tensor([[14], [9], [5]])).long()
    return ids * mask, mask


def streamed_maps(encoder, ids, mask, **options):
    maps = []
    encoder(ids, mask, sink=lambda weights: maps.append(weights.clone()), **options)
    return torch.stack(maps)


def own_output(folder, ids, mask):
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    with torch.no_grad():
        return model(input_ids=ids, attention_mask=mask, output_attentions=True, output_hidden_states=True)


def real_rows(maps, mask):
    """The rows of the tokens that are no padding: (row, layer, head, key)."""
    return maps.permute(1, 3, 0, 2, 4)[mask.bool()]


@every_architecture
def test_maps_equal_the_models_own(arch, random_encoder, tokens):
    encoder = random_encoder(arch)
    expected = torch.stack(own_output(encoder.folder, *tokens).attentions)
    difference = real_rows(streamed_maps(encoder, *tokens) - expected, tokens[1]).abs().max()
    assert expected.std() > 0.02
    assert difference <= 1e-6


@every_architecture
def test_padding_changes_no_map(arch, random_encoder, tokens):
    encoder, (ids, mask) = random_encoder(arch), tokens
    maps = streamed_maps(encoder, ids, mask)
    for place, length in enumerate(mask.sum(1).tolist()):
        unpadded = ids[place : place + 1, :length]
        alone = torch.stack(own_output(encoder.folder, unpadded, torch.ones_like(unpadded)).attentions)
        torch.testing.assert_close(maps[:, place, :, :length, :length], alone[:, 0], atol=5e-6, rtol=0)


@every_architecture
def test_rows_sum_to_one_and_padding_gets_nothing(arch, random_encoder, tokens):
    rows = real_rows(streamed_maps(random_encoder(arch), *tokens), tokens[1])
    torch.testing.assert_close(rows.sum(-1), torch.ones(rows.shape[:-1]), atol=1e-6, rtol=0)
    example_of_row = tokens[1].nonzero()[:, 0]
    on_padding = rows * (1 - tokens[1])[example_of_row][:, None, None]
    assert on_padding.abs().max() == 0


@every_architecture
def test_hidden_states_equal_the_models_own(arch, random_encoder, tokens):
    encoder, real = random_encoder(arch), tokens[1].bool()
    expected = own_output(encoder.folder, *tokens).hidden_states
    states = encoder(*tokens, hidden_states=True)
    assert len(states) == len(expected) == 4
    for ours, theirs in zip(states, expected, strict=True):
        torch.testing.assert_close(ours[real], theirs[real], atol=5e-6, rtol=0)


@every_architecture
def test_early_exit_gives_identical_maps(arch, random_encoder, tokens):
    encoder = random_encoder(arch)
    assert torch.equal(streamed_maps(encoder, *tokens), streamed_maps(encoder, *tokens, hidden_states=True))


def test_early_exit_leaves_the_last_feed_forward_out(random_encoder, tokens):
    encoder, ran = random_encoder("bert").load(), []
    for number, layer in enumerate(encoder.model.encoder.layer):
        layer.output.register_forward_hook(lambda *_, number=number: ran.append(number))
    streamed_maps(encoder, *tokens)
    assert ran == [0, 1]
    streamed_maps(encoder, *tokens, hidden_states=True)
    assert ran == [0, 1, 0, 1, 2]


@pytest.mark.parametrize(("arch", "streams"), [(arch, True) for arch in STREAMED] + [(arch, False) for arch in OWN])
def test_which_models_go_through_the_attention_interface(arch, streams, random_encoder):
    implementation = random_encoder(arch).load().model.config._attn_implementation
    assert (implementation == "headscope") is streams


def test_two_encoders_keep_their_maps_apart(random_encoder, tokens):
    first, second = (random_encoder("bert", seed, f"bert{seed}") for seed in (1, 2))
    outer = streamed_maps(first, *tokens)
    inner, again = [], []

    def run_the_second(weights):
        again.append(weights.clone())
        if len(again) == 1:
            second(*tokens, sink=lambda weights: inner.append(weights.clone()))

    first(*tokens, sink=run_the_second)
    assert torch.equal(torch.stack(again), outer)
    assert torch.equal(torch.stack(inner), streamed_maps(second, *tokens))


@pytest.mark.parametrize("scaling", [None, 0.3])
def test_attention_by_hand(scaling):
    """Grouped keys, an additive mask and a scale of the model's own; the sink sees the weights before dropout."""
    random = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(2, heads, 5, 8, generator=random) for heads in (4, 2, 2))
    mask = torch.zeros(2, 1, 5, 5).index_fill_(-1, torch.tensor([4]), -torch.inf)
    received, module = [], torch.nn.Identity().train()
    with weights_go_to(received.append):
        context, _ = streamed_attention(module, query, key, value, mask, scaling, dropout=0.0)
        streamed_attention(module, query, key, value, mask, scaling, dropout=0.9)
    for example, head, row in product(range(2), range(4), range(5)):
        keys, values = key[example, head // 2], value[example, head // 2]
        scores = [float(query[example, head, row] @ keys[j]) * (scaling or 8**-0.5) for j in range(4)]
        powers = torch.tensor([*scores, -torch.inf]).exp()
        expected = powers / powers.sum()
        torch.testing.assert_close(received[0][example, head, row], expected)
        torch.testing.assert_close(context[example, row, head], expected @ values, atol=1e-5, rtol=0)
    assert torch.equal(received[0], received[1])


def test_encoder_is_frozen_and_in_eval_mode(random_encoder):
    model = random_encoder("bert").load().model
    assert not any(module.training for module in model.modules())
    assert not any(parameter.requires_grad for parameter in model.parameters())


def weights(folder, **options):
    return FrozenEncoder(str(folder), **options).load().model.state_dict()


@pytest.mark.parametrize("arch", WORDS_AND_POSITIONS)
def test_init_embeddings_keeps_only_words_and_positions(arch, random_encoder):
    folder = random_encoder(arch).folder
    trained, drawn = weights(folder), weights(folder, init="embeddings")
    matrices = [name for name, value in trained.items() if value.ndim == 2]
    kept = {name for name in matrices if torch.equal(trained[name], drawn[name])}
    assert kept == WORDS_AND_POSITIONS[arch]


@pytest.mark.parametrize("arch", ["bert", "gpt2"])
def test_init_normal_keeps_no_matrix_and_draws_from_the_initializer(arch, random_encoder):
    folder = random_encoder(arch).folder
    trained, drawn = weights(folder), weights(folder, init="normal")
    assert not [name for name, value in trained.items() if value.ndim == 2 and torch.equal(value, drawn[name])]
    words = min(WORDS_AND_POSITIONS[arch], key=lambda name: -trained[name].numel())
    assert drawn[words].mean().abs() < 0.002
    assert abs(drawn[words].std() - 0.15) < 0.002


@pytest.mark.parametrize("init", ["embeddings", "normal"])
def test_random_init_follows_the_seed_alone(init, random_encoder):
    folder = random_encoder("bert").folder
    draw = partial(weights, folder, init=init)
    torch.manual_seed(1)
    first = draw(seed=5)
    torch.manual_seed(2)
    state = torch.get_rng_state()
    second, other = draw(seed=5), draw(seed=6)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(first[name], second[name]) for name in first)
    redrawn = "encoder.layer.0.attention.self.query.weight"
    assert not torch.equal(first[redrawn], other[redrawn])


def test_bfloat16_is_close(minilm, tokens, monkeypatch):
    """Without oneDNN, whose bfloat16 kernels need AMX that some virtual machines announce but do not run."""
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    encoder = FrozenEncoder(minilm.name, dtype="bfloat16").load()
    assert {parameter.dtype for parameter in encoder.model.parameters()} == {torch.bfloat16}
    maps = streamed_maps(encoder, *tokens)
    difference = real_rows(maps - streamed_maps(minilm, *tokens), tokens[1]).abs()
    assert maps.dtype == torch.float32
    assert 0 < difference.max() <= 3e-2  # transformers' own eager attention in bfloat16 is 2.3e-2 off
    assert difference.mean() <= 1e-3


def test_identity_says_what_was_loaded(random_encoder, minilm):
    folder = random_encoder("bert").folder
    identity = FrozenEncoder(str(folder), init="normal", dtype="bfloat16", seed=3).identity()
    said = {name: value for name, value in identity.items() if not name.endswith("sha256")}
    parameters = sum(tensor.numel() for tensor in load_file(folder / "model.safetensors").values())
    assert said == {"name": str(folder), "init": "normal", "dtype": "torch.bfloat16", "seed": 3, "parameters": parameters}
    assert "seed" not in minilm.identity()
    assert minilm.identity()["tokenizer_sha256"] == identity["tokenizer_sha256"]


def test_identity_changes_with_what_the_model_computes(random_encoder):
    folder = random_encoder("bert").folder
    before = FrozenEncoder(str(folder)).identity()
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"hidden_act": "relu"}))
    assert FrozenEncoder(str(folder)).identity() != before


@pytest.mark.parametrize(
    ("name", "wrong", "expected"),
    [("init", "zeros", "pretrained, embeddings or normal"), ("dtype", "float16", "float32 or bfloat16")],
)
def test_unknown_option_is_a_configuration_error(name, wrong, expected, minilm):
    with pytest.raises(ConfigError, match=f"^encoder.{name}={wrong}: expected {expected}.$"):
        FrozenEncoder(minilm.name, **{name: wrong})


def test_a_folder_without_model_is_named(tmp_path):
    with pytest.raises(InputError, match=f"^{tmp_path}: expected a folder with config.json and weights"):
        FrozenEncoder(str(tmp_path))


@pytest.mark.parametrize("content", ["{", "{}", '{"model_type": "no such model"}'])
def test_a_config_of_no_model_is_named(content, tmp_path):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(InputError, match=f"^{tmp_path}: config.json is not that of a transformers model"):
        FrozenEncoder(str(tmp_path))


def test_missing_weights_are_named(random_encoder):
    encoder = random_encoder("bert")
    (encoder.folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match=f"^{encoder.folder}: expected .* found no weights"):
        encoder.load()


@pytest.mark.parametrize("kept", [0, 4, 1000, -1000])
def test_truncated_safetensors_are_named(kept, random_encoder):
    encoder = random_encoder("bert")
    file = encoder.folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(InputError, match=f"^{encoder.folder}: the weights cannot be read"):
        encoder.load()


def test_weights_of_another_shape_are_named(random_encoder):
    encoder = random_encoder("bert")
    tensors = load_file(encoder.folder / "model.safetensors")
    tensors["embeddings.word_embeddings.weight"] = torch.zeros(5, 32)
    save_file(tensors, encoder.folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=f"^{encoder.folder}: the weights cannot be read"):
        encoder.load()


def test_a_changed_byte_is_found_before_the_weights_are_used(minilm, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(minilm.folder, folder)
    file = folder / "model.safetensors"
    with file.open("r+b") as stream:
        stream.seek(-1000, 2)
        byte = stream.read(1)[0]
        stream.seek(-1000, 2)
        stream.write(bytes([byte ^ 1]))
    encoder = FrozenEncoder(str(folder), sha256=minilm.checksum())
    with pytest.raises(InputError, match=f"^{file}: the weights' sha256 is .* expected {minilm.checksum()}"):
        encoder.load()
    assert encoder.model is None
    assert FrozenEncoder(str(folder)).load().model is not None


def test_the_right_checksum_is_accepted(random_encoder):
    folder = random_encoder("bert").folder
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    encoder = FrozenEncoder(str(folder), sha256=digest)
    assert encoder.load().checksum() == digest


def test_a_hub_model_out_of_reach_is_named():
    with pytest.raises(InputError, match="^encoder.name=nobody/no-such-model: neither a local folder nor a hub model"):
        FrozenEncoder("nobody/no-such-model")


def test_a_package_that_is_not_installed_is_named():
    with pytest.raises(InputError, match=r"the packaged encoder \(no-such-package\) is not installed"):
        FrozenEncoder("package:no_such_package/model")


def test_fewer_layers_than_promised_are_an_error(random_encoder, tokens):
    encoder = random_encoder("bert").load()
    encoder.layers = 4
    with pytest.raises(InputError, match="gave the maps of 3 layers, expected 4"):
        encoder(*tokens)


def test_a_missing_layer_is_an_error(random_encoder):
    encoder = random_encoder("bert")
    tensors = load_file(encoder.folder / "model.safetensors")
    kept = {name: tensor for name, tensor in tensors.items() if ".layer.1." not in name}
    save_file(kept, encoder.folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError):
        encoder.load()


def test_a_missing_tokenizer_is_an_error(random_encoder):
    encoder = random_encoder("bert")
    for file in encoder.folder.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(InputError):
        encoder.tokenizer()


def test_a_damaged_torch_file_is_named(random_encoder):
    encoder = random_encoder("bert")
    (encoder.folder / "model.safetensors").unlink()
    (encoder.folder / "pytorch_model.bin").write_bytes(b"no weights" * 100)
    with pytest.raises(InputError, match=str(encoder.folder)):
        encoder.load()


def test_a_model_without_attention_layers_is_named(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "resnet"}')
    with pytest.raises(InputError, match=str(tmp_path)):
        FrozenEncoder(str(tmp_path))


def test_the_second_model_is_read_by_its_own_spec(random_encoder, tmp_path):
    first, second = random_encoder("bert"), random_encoder("bert", seed=7, name="second")
    tuned = tuned_encoder(second.name, first.name, dtype="bfloat16", trust_remote_code=True, sha256=second.checksum())
    expected = {"dtype": "bfloat16", "trust_remote_code": True, "sha256": second.checksum()}
    assert tuned.spec == EncoderSpec(second.name, **expected)
    assert tuned.load().model.dtype == torch.bfloat16
    change = tmp_path / "change.safetensors"
    save_file({"encoder.layer.0.output.dense.bias": torch.ones(32)}, change)
    assert tuned_encoder(None, first.name, change=str(change)).spec == EncoderSpec(first.name, change=str(change))
    assert tuned_encoder(second.name, first.name, change=str(change)).spec.name == second.name


def test_without_a_name_or_a_change_there_is_no_second_model(minilm):
    plain = {"revision": None, "init": "pretrained", "dtype": "bfloat16", "seed": 3, "change": None, "sha256": None}
    assert tuned_encoder(None, minilm.name, trust_remote_code=True, **plain) is None
    for option, value in (("revision", "v2"), ("init", "normal"), ("sha256", "abc")):
        with pytest.raises(ConfigError, match=f"^tuned.{option}={value}: of which model"):
            tuned_encoder(None, minilm.name, **plain | {option: value})
