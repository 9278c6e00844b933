"""Every text family of the installed transformers with tiny random weights, built in memory."""

from collections.abc import Iterator
from typing import Any, cast

import torch
import transformers
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

LAYERS, HEADS, SIZE, WORDS = 2, 4, 32, 120
FOR_LAYERS = (
    "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_decoder_layers num_encoder_layers"
)
FOR_HEADS = "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads"
FOR_SIZE = "hidden_size d_model n_embd dim emb_dim embedding_size d_embed hidden_dim embed_dim word_embed_proj_dim"
FOR_FEED_FORWARD = (
    "intermediate_size encoder_ffn_dim decoder_ffn_dim d_ff ffn_dim n_inner d_inner moe_intermediate_size ffn_hidden_size "
    "shared_expert_intermediate_size moe_shared_expert_intermediate_size expert_ffn_hidden_size"
)
SMALL: dict[str, Any] = {
    **dict.fromkeys(FOR_LAYERS.split(), LAYERS),
    **dict.fromkeys(FOR_HEADS.split(), HEADS),
    **dict.fromkeys(FOR_SIZE.split(), SIZE),
    **dict.fromkeys(FOR_FEED_FORWARD.split(), 48),
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": WORDS,
    "max_position_embeddings": 64,
    "n_positions": 64,
    "sliding_window": 4,
    "attn_logit_softcapping": 2.0,
    "local_attention": 4,
    "global_attn_every_n_layers": 2,
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 8,
    "initializer_range": 0.15,  # large enough for attention that is far from uniform
    "init_std": 0.15,
    "initializer_factor": 2.0,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
# What a family needs beside small sizes.
MROPE: dict[str, Any] = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}}
ALL_KEYS = {"num_key_value_heads": HEADS}
SPECIAL: dict[str, dict[str, Any]] = {
    "codegen": {"rotary_dim": 4},
    "gptj": {"rotary_dim": 4},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 4},
    "dots1": {"num_key_value_heads": 2, "n_shared_experts": 1},
    "esmc": ALL_KEYS,
    "glm5_next_text": ALL_KEYS,
    "cosmos3_edge_text": MROPE,
    "glm4v_text": MROPE,
    "glm4v_moe_text": {"rope_parameters": {**MROPE["rope_parameters"], "partial_rotary_factor": 1.0}},
    "glm_image_text": MROPE,
    "glm_ocr_text": MROPE,
    "qwen2_vl_text": MROPE,
    "qwen2_5_vl_text": MROPE,
    "hunyuan_vl_text": MROPE,
    "dbrx": {"attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0}, "ffn_config": {"ffn_hidden_size": 48, "moe_num_experts": 4}},
    "granitemoehybrid": {"mamba_n_heads": 8, "mamba_d_head": 8, "layer_types": ["linear_attention", "full_attention"]},
    "bamba": {"mamba_n_heads": 8, "mamba_d_head": 8, "attn_layer_indices": [1]},
    "falcon_h1": {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_ssm": 64},
    "mamba2": {"num_heads": 8, "head_dim": 8},
    "lilt": {"channel_shrink_ratio": 4, "hidden_size": 48},
    "luke": {"entity_vocab_size": 20, "entity_emb_size": 16},
    "mistral4": {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
    "reformer": {"axial_pos_shape": [8, 8], "axial_pos_embds_dim": [16, 16]},
    "zaya": {"num_experts_per_tok": 1},
    "xmod": {"default_language": "en_XX"},
    "gemma3n_text": {"layer_types": ["sliding_attention", "full_attention"], "num_kv_shared_layers": 0},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
}


def text_families() -> Iterator[str]:
    """The model types that read text alone."""
    for family in MODEL_MAPPING_NAMES:
        try:
            kind = model_class(family)
            modalities, first = kind.input_modalities, kind.main_input_name
        except (AttributeError, ImportError):  # of a package that is not installed, such as one for sound
            continue
        if first == "input_ids" and modalities in ("text", ["text"], ("text",)):
            yield family


def model_class(family: str) -> Any:
    """The class of a family's plain model."""
    name = MODEL_MAPPING_NAMES[family]
    return getattr(transformers, name if isinstance(name, str) else name[0])


def small_config(kind: type[PreTrainedConfig], **special: Any) -> PreTrainedConfig:
    """A configuration with every size small that a family's default has, in its parts too."""
    default = kind()
    known = {**kind.attribute_map, **default.to_dict()}
    changes = {key: value for key, value in SMALL.items() if key in known}
    for part in cast(dict[str, Any], kind.sub_configs):
        if isinstance(getattr(default, part, None), PreTrainedConfig):
            changes[part] = small_config(type(getattr(default, part))).to_dict()
    if "kv_lora_rank" in known:  # latent attention has as many keys as queries
        changes["num_key_value_heads"] = HEADS
    if known.get("layer_types"):
        changes["layer_types"] = layer_types(known["layer_types"])
    return kind(**changes | special)


def layer_types(types: list[str]) -> list[str]:
    """As many kinds of layer as fit."""
    different = list(dict.fromkeys(types))
    return (different * LAYERS)[:LAYERS]


def small_model(family: str, seed: int = 0) -> PreTrainedModel:
    """The plain model of a family, or the encoder of one that has a decoder too; in eval mode, with eager attention."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = small_config(CONFIG_MAPPING[family], **SPECIAL.get(family, {}))
        config._attn_implementation = "eager"
        model = model_class(family)(config)
        # Learned sinks and biases are zero at first, and would hide what ignoring them changes.
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1 and ("sink" in name or "bias" in name):
                torch.nn.init.normal_(parameter, std=0.3)
    model = model.float().eval().requires_grad_(False)
    return model.get_encoder() if config.is_encoder_decoder else model
