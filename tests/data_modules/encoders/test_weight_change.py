"""Changes of weights: exact at full rank, best of their rank below it; wrong files and models."""

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.data_modules.encoders.weight_change import add_change, change_file, low_rank_change
from headscope.errors import InputError
from headscope.tools.weight_change import main


def model(seed, width=6):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(width, 4), nn.LayerNorm(4), nn.Linear(4, 3))


def changed(before, after, rank, file):
    save_file(low_rank_change(before.state_dict(), after.state_dict(), rank), file)
    add_change(before, file)
    return before.state_dict()


def test_a_change_of_full_rank_gives_the_other_model(tmp_path):
    before, after = model(0), model(1)
    found = changed(before, after, 6, tmp_path / "change.safetensors")
    for name, weights in after.state_dict().items():
        torch.testing.assert_close(found[name], weights, atol=2e-3, rtol=0)  # kept in float16


def test_a_lower_rank_is_the_best_of_its_rank(tmp_path):
    before, after, untouched = model(0), model(1), model(0).state_dict()
    found = changed(before, after, 1, tmp_path / "change.safetensors")
    difference = after.state_dict()["0.weight"] - untouched["0.weight"]
    sizes = torch.linalg.svdvals(difference)
    left_over = (after.state_dict()["0.weight"] - found["0.weight"]).norm()
    assert float(left_over) == pytest.approx(float(sizes[1:].norm()), abs=2e-3)
    torch.testing.assert_close(found["0.bias"], after.state_dict()["0.bias"], atol=1e-3, rtol=0)


def test_embeddings_and_pooler_are_left_out():
    before = {"embeddings.word.weight": torch.zeros(2, 2), "pooler.weight": torch.zeros(2, 2), "a.bias": torch.zeros(2)}
    after = {name: weights + 1 for name, weights in before.items()}
    assert list(low_rank_change(before, after, 1)) == ["a.bias"]


def test_a_change_of_another_model_does_not_fit(tmp_path):
    file = tmp_path / "change.safetensors"
    save_file(low_rank_change(model(0).state_dict(), model(1).state_dict(), 2), file)
    with pytest.raises(InputError, match="is the change of another model: 0.weight does not fit.$"):
        add_change(model(0, width=5), file)


@pytest.mark.parametrize("rank", [None, 1])
def test_a_factor_without_its_other_does_not_fit(tmp_path, rank):
    file = tmp_path / "change.safetensors"
    factors = {"0.weight.left": torch.ones(4, 2)} | ({"0.weight.right": torch.ones(rank, 6)} if rank else {})
    save_file(factors, file)
    with pytest.raises(InputError, match="is the change of another model: 0.weight does not fit.$"):
        add_change(model(0), file)


def test_a_file_that_is_none(tmp_path):
    (tmp_path / "text.safetensors").write_text("no tensors here")
    with pytest.raises(InputError, match="expected a change of weights in safetensors, found something else.$"):
        add_change(model(0), tmp_path / "text.safetensors")
    with pytest.raises(InputError, match="no such file; python -m headscope.tools.weight_change makes one.$"):
        change_file(str(tmp_path / "none.safetensors"))


def test_an_encoder_with_a_change_is_the_fine_tuned_one(random_encoder, tmp_path):
    """Its own checksum, and the maps of the other model where only the layers differ."""
    before, after = random_encoder("bert", seed=1, name="before"), random_encoder("bert", seed=2, name="after")
    weights = after.load().model.state_dict()
    weights |= {name: tensor for name, tensor in before.load().model.state_dict().items() if name.startswith("embeddings")}
    after.model.load_state_dict(weights)
    file = tmp_path / "change.safetensors"
    save_file(low_rank_change(before.model.state_dict(), weights, 48), file)
    tuned = FrozenEncoder(before.name, change=str(file))
    assert tuned.checksum() != before.checksum()
    assert (tuned.identity()["change"], "change" in before.identity()) == (str(file), False)
    ids = torch.tensor([[101, 2023, 3185, 2003, 2307, 102]])
    maps = {"tuned": [], "after": [], "before": []}
    for name, encoder in (("tuned", tuned), ("after", after), ("before", before)):
        encoder(ids, torch.ones_like(ids), sink=maps[name].append)
    torch.testing.assert_close(torch.stack(maps["tuned"]), torch.stack(maps["after"]), atol=5e-3, rtol=0)
    assert (torch.stack(maps["tuned"]) - torch.stack(maps["before"])).abs().max() > 0.05


def test_two_unlike_models_have_no_change():
    with pytest.raises(InputError, match="0.weight of the first does not fit the second"):
        low_rank_change(model(0).state_dict(), model(0, width=5).state_dict(), 2)


def test_the_command_writes_a_change_or_says_in_one_sentence_why_not(random_encoder, tmp_path, monkeypatch, capsys):
    one, other = random_encoder("bert"), random_encoder("bert", seed=7, name="tuned")
    file = tmp_path / "change.safetensors"
    monkeypatch.setattr("sys.argv", ["weight_change", str(one.folder), str(other.folder), str(file), "--rank", "32"])
    main()
    assert capsys.readouterr().out.strip() == str(file)
    made, wanted = (
        encoder.load().model.state_dict() for encoder in (FrozenEncoder(str(one.folder), change=str(file)), other)
    )
    name = "encoder.layer.1.attention.self.query.weight"
    torch.testing.assert_close(made[name], wanted[name], atol=2e-3, rtol=0)
    monkeypatch.setattr("sys.argv", ["weight_change", str(one.folder), str(tmp_path), str(file)])
    with pytest.raises(SystemExit, match="found no model there"):
        main()
