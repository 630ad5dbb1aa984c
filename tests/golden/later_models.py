"""Tiny models of the architectures that came after NomicBERT, for make_architectures.py. Each has random numbers of its
own, so that another one changes no file but by what it adds."""

import re

import numpy as np
import torch
import transformers as hf

SIZES = dict(vocab_size=97, num_hidden_layers=2, hidden_size=32, num_attention_heads=4, intermediate_size=48,
             max_position_embeddings=40)
SMALL = dict(vocab_size=29, hidden_size=16, num_attention_heads=2, intermediate_size=24, max_position_embeddings=14)


class Later:
    """name; config's and model's class; sizes; the files' type; whether in two files; lengths of texts; names: of a
    list of names, those that the files have, each with the names that it is made of one after the other; keys: changes
    the config.json; change: what the class cannot do."""

    def __init__(self, name, config, model, sizes, dtype="F32", sharded=False, lengths=None, names=None, keys=None,
                 change=None):
        self.name, self.config, self.model, self.sizes = name, config, model, sizes
        self.dtype, self.sharded, self.lengths = dtype, sharded, lengths
        self.names, self.keys, self.change = names, keys, change

    def random(self):
        return np.random.default_rng(list(self.name.encode()))


def renamed(names, rules, order=()):
    """Names by regular expressions, tried one after the other; where several become one, those with a part of `order`
    stand as that says."""
    found = {}
    for name in sorted(names, key=lambda n: next((i for i, part in enumerate(order) if part in n), -1)):
        new = name
        for pattern, to in rules:
            new = re.sub(pattern, to, new)
        found.setdefault(new, []).append(name)
    return {new: found[new] for new in dict.fromkeys(sorted(found, key=lambda n: names.index(found[n][0])))}


# ---- GTE ----


def gte(**more):
    """rope_theta is the base of the rotary positions."""
    return {**SIZES, "rope_parameters": {"rope_type": "default", "rope_theta": more.pop("rope_theta", 1000.0)}, **more}


def new_names(names):
    """What the program that came with the first files calls them; its model is "new"."""
    return renamed(names, [(r"^gte\.", "new."), (r"(^|\.)layers\.", r"\1encoder.layer."),
                           (r"self_attn\.[qkv]_proj", "attention.qkv_proj"), (r"self_attn\.o_proj", "attention.o_proj"),
                           (r"mlp\.(up|gate)_proj", "mlp.up_gate_proj"), ("post_attention_layernorm", "attn_ln"),
                           ("post_mlp_layernorm", "mlp_ln"), (r"lm_head\.layer_norm", "lm_head.norm")],
                   ("q_proj", "k_proj", "v_proj", "up_proj", "gate_proj"))


def new_keys(config, factor=None):
    config.update(model_type="new", rope_theta=config.pop("rope_parameters")["rope_theta"], pack_qkv=True,
                  architectures=[config["architectures"][0].replace("Gte", "New")], layer_norm_type="layer_norm",
                  logn_attention_clip1=False, logn_attention_scale=False, position_embedding_type="rope",
                  rope_scaling={"factor": factor, "type": "ntk"} if factor else None, unpad_inputs=False,
                  use_memory_efficient_attention=True,
                  auto_map={"AutoConfig": "Alibaba-NLP/new-impl--configuration.NewConfig",
                            "AutoModel": "Alibaba-NLP/new-impl--modeling.NewModel"})


def new_keys_scaled(config):
    new_keys(config, 2.5)


def scale(encoder):
    """The base times the factor, then all frequencies divided by factor^(2 / channels)."""
    config = encoder.config
    dim, base = config.hidden_size // config.num_attention_heads, config.rope_parameters["rope_theta"]
    frequencies = (2.5 * base) ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim) / 2.5 ** (2 / dim)
    encoder.rotary_emb.inv_freq = torch.nn.Buffer(frequencies, persistent=False)


GTE = [
    Later("gte", hf.GteConfig, hf.GteModel, gte(rope_theta=100.0)),
    Later("gte-new", hf.GteConfig, hf.GteModel, gte(type_vocab_size=2, num_attention_heads=2, vocab_size=61),
          "F16", True, names=new_names, keys=new_keys),
    Later("gte-scaled", hf.GteConfig, hf.GteForTokenClassification,
          gte(rope_theta=50.0, num_attention_heads=2, num_hidden_layers=3, hidden_act="gelu_pytorch_tanh"), "BF16", True,
          names=new_names, keys=new_keys_scaled, change=scale),
    Later("gte-task", hf.GteConfig, hf.GteForSequenceClassification,
          gte(type_vocab_size=0, num_attention_heads=1, layer_norm_eps=1e-5), "F32", names=new_names, keys=new_keys),
]
GTE_TRAINED = [
    Later("train-gte", hf.GteConfig, hf.GteModel, gte(**SMALL)),
    Later("train-gte-scaled", hf.GteConfig, hf.GteModel, gte(rope_theta=10.0, type_vocab_size=2, **SMALL),
          names=new_names, keys=new_keys_scaled, change=scale),
]

MODELS = GTE
TRAINED = GTE_TRAINED
