"""Streamed maps of many families against their own eager ones, padded, float32."""

import pytest

from headscope.data_modules.encoders import conformance

STREAMED = (
    "albert bert cohere cohere2 distilbert electra ernie gemma gemma2 gemma3_text glm gpt2 gpt_bigcode gpt_neox gpt_oss "
    "granite helium llama mistral mixtral modernbert nemotron olmo2 opt phi3 qwen2 qwen3 roberta smollm3 starcoder2 "
    "vaultgemma"
)
OWN = "bart bloom deberta-v2 marian mpnet roformer t5 xlm"
REFUSED = {
    "fnet": "is no model with layers of attention heads",
    "longformer": "expected (2, 4, 9, 9)",
    "squeezebert": "to padding",
    "mamba": "is no model with layers of attention heads",
}
DECODERS = {"llama", "gemma2", "gpt_oss", "gpt2", "mistral", "bloom"}


@pytest.mark.parametrize("family", STREAMED.split())
def test_a_streamed_family_is_within_1e_5_of_its_own_maps(family):
    found = conformance.conformance(family)
    assert (found.kind, found.disabled) == ("streamed", True), found.why
    assert found.maps <= 1e-5
    assert found.output <= 1e-5
    assert found.what == "decoder" or family not in DECODERS


@pytest.mark.parametrize("family", OWN.split())
def test_a_family_outside_the_interface_gives_its_own_maps_and_its_heads_can_be_disabled(family):
    found = conformance.conformance(family)
    assert (found.kind, found.disabled) == ("own maps", True), found.why


@pytest.mark.parametrize("family", REFUSED)
def test_a_family_without_maps_of_all_tokens_is_refused(family):
    found = conformance.conformance(family)
    assert (found.kind, found.disabled) == ("refused", False)
    assert REFUSED[family] in found.why


def test_the_page_says_how_many_of_each():
    rows = [conformance.conformance(family) for family in ("bert", "mpnet", "fnet")]
    page = conformance.document(rows)
    assert "1 streamed, 1 own maps, 1 refused, 0 not built" in page
    assert "| mpnet | encoder | own maps |  |  | yes |" in page
    assert len([line for line in page.splitlines() if line.startswith("| ")]) == 5
