"""Makes of a GGUF file of a Llama the folder that vLLM loads: weights as safetensors in
bfloat16, the tokenizer, and config.json, which is written last.

convert.py MODEL.gguf FOLDER
"""

import json
import os
import sys

import gguf
import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoTokenizer

OUTER = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
LAYER = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}


def named(tensor):
    """The name of a GGUF tensor in transformers' Llama, and its part of a layer."""
    base = tensor.removesuffix(".weight")
    if not base.startswith("blk."):
        return OUTER[base] + ".weight", None
    _, layer, part = base.split(".")
    return f"model.layers.{layer}.{LAYER[part]}.weight", part


def halves(weight, heads):
    """GGUF has the two halves of a head, which are turned together, side by side;
    transformers has one after the other."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def main(source, target):
    reader = gguf.GGUFReader(source)

    def field(name):
        return reader.fields[name].contents()

    heads, kv_heads = field("llama.attention.head_count"), field("llama.attention.head_count_kv")
    weights = {}
    for tensor in reader.tensors:
        name, part = named(tensor.name)
        weight = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        if part in ("attn_q", "attn_k"):
            weight = halves(weight, heads if part == "attn_q" else kv_heads)
        weights[name] = torch.from_numpy(np.ascontiguousarray(weight)).to(torch.bfloat16)
    os.makedirs(target)
    save_file(weights, os.path.join(target, "model.safetensors"), metadata={"format": "pt"})
    folder, file = os.path.split(source)
    AutoTokenizer.from_pretrained(folder, gguf_file=file).save_pretrained(target)
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16", "hidden_act": "silu",
        "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": "lm_head.weight" not in weights,
        "hidden_size": field("llama.embedding_length"), "intermediate_size": field("llama.feed_forward_length"),
        "num_hidden_layers": field("llama.block_count"), "num_attention_heads": heads, "num_key_value_heads": kv_heads,
        "rms_norm_eps": field("llama.attention.layer_norm_rms_epsilon"), "rope_theta": field("llama.rope.freq_base"),
        "max_position_embeddings": field("llama.context_length"), "vocab_size": weights["model.embed_tokens.weight"].shape[0],
        "bos_token_id": field("tokenizer.ggml.bos_token_id"), "eos_token_id": field("tokenizer.ggml.eos_token_id"),
    }
    with open(os.path.join(target, "config.json"), "w") as out:
        json.dump(config, out, indent=1)


main(*sys.argv[1:])
