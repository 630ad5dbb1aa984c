"""Tiny models of the architectures that came after NomicBERT, for make_architectures.py. Each has random numbers of its
own, so that another one changes no file but by what it adds."""

import json
import re
import types

import numpy as np
import torch
import transformers as hf

from mixture_models import MixtureConfig, NomicMixtureModel

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

# ---- ModernBERT ----


def modern(**more):
    """bases are those of layers that see all and of those with a window."""
    bases = more.pop("bases", (1000.0, 50.0))
    own = dict(pad_token_id=0, bos_token_id=1, cls_token_id=1, eos_token_id=2, sep_token_id=2, local_attention=6,
               rope_parameters={name: {"rope_type": "default", "rope_theta": base}
                                for name, base in zip(("full_attention", "sliding_attention"), bases)})
    return {**SIZES, **own, **more}


def old_keys(config):
    """Those of the first files."""
    bases = config.pop("rope_parameters")
    types = config.pop("layer_types")
    config.update(global_attn_every_n_layers=types.index("full_attention", 1), layer_norm_eps=config["norm_eps"],
                  global_rope_theta=bases["full_attention"]["rope_theta"], position_embedding_type="absolute",
                  local_rope_theta=bases["sliding_attention"]["rope_theta"])


WINDOWS = ["sliding_attention", "sliding_attention", "full_attention"]

MODERN = [
    Later("modernbert", hf.ModernBertConfig, hf.ModernBertModel, modern()),
    # A window of 64 to each side, at its edges.
    Later("modernbert-long", hf.ModernBertConfig, hf.ModernBertModel,
          modern(local_attention=128, max_position_embeddings=140, num_attention_heads=2), "F32",
          lengths=[64, 65, 66, 128, 129, 140]),
    Later("modernbert-old", hf.ModernBertConfig, hf.ModernBertForSequenceClassification,
          modern(num_hidden_layers=4, num_attention_heads=2, hidden_activation="gelu_pytorch_tanh", norm_eps=1e-4,
                 bases=(100.0, 10.0)), "F16", True, keys=old_keys),
    Later("modernbert-mean", hf.ModernBertConfig, hf.ModernBertForSequenceClassification,
          modern(num_hidden_layers=5, num_attention_heads=1, layer_types=(2 * WINDOWS)[:5], num_labels=3,
                 classifier_pooling="mean", local_attention=10), "BF16", False),
    Later("modernbert-tokens", hf.ModernBertConfig, hf.ModernBertForTokenClassification,
          modern(layer_types=["full_attention"] * 2, num_labels=5, norm_bias=True, attention_bias=True, mlp_bias=True,
                 classifier_bias=True), "F32", False),
    Later("modernbert-words", hf.ModernBertConfig, hf.ModernBertForMaskedLM,
          modern(layer_types=["sliding_attention"] * 2, vocab_size=53), "F32", True),
]
MODERN_TRAINED = [
    Later("train-modernbert", hf.ModernBertConfig, hf.ModernBertModel, modern(local_attention=6, **SMALL)),
    Later("train-modernbert-deep", hf.ModernBertConfig, hf.ModernBertModel,
          modern(local_attention=8, num_hidden_layers=3, layer_types=WINDOWS, bases=(10.0, 100.0), **SMALL)),
]


# ---- Jina v2 ----


class JinaConfig:
    """What its config.json has."""

    def __init__(self, **sizes):
        self.pad_token_id, self.architectures = 0, []
        self.values = {"layer_norm_eps": 1e-12, "hidden_act": "gelu", "type_vocab_size": 2, **sizes}
        self.__dict__.update(self.values)

    def to_json_string(self, use_diff):
        return json.dumps({**self.values, "model_type": "bert", "architectures": ["JinaBertForMaskedLM"],
                           "_name_or_path": "jinaai/jina-bert-implementation", "position_embedding_type": "alibi",
                           "feed_forward_type": "geglu", "emb_pooler": "mean", "model_max_length": 8192,
                           "auto_map": {"AutoModel": "jinaai/jina-bert-implementation--modeling_bert.JinaBertModel"}})


def slopes(heads):
    """Of a power of two 2^(-8 / heads), its square and so on; of others those of the next smaller one, and every
    second one of the next larger."""
    power = 2 ** (heads.bit_length() - 1)
    found = [2 ** (-8 * (h + 1) / power) for h in range(power)]
    return found + [2 ** (-8 * (h + 1) / (2 * power)) for h in range(0, 2 * (heads - power), 2)]


class JinaAttention(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config.hidden_size
        self.heads = config.num_attention_heads
        self.self = torch.nn.ModuleDict({part: torch.nn.Linear(width, width) for part in ("query", "key", "value")})
        self.output = torch.nn.ModuleDict({"dense": torch.nn.Linear(width, width),
                                           "LayerNorm": torch.nn.LayerNorm(width, config.layer_norm_eps)})

    def forward(self, x):
        q, k, v = (self.self[part](x).unflatten(-1, (self.heads, -1)).transpose(0, 1)
                   for part in ("query", "key", "value"))
        place = torch.arange(len(x))
        apart = (place[:, None] - place[None]).abs()
        bias = -torch.tensor(slopes(self.heads), dtype=x.dtype)[:, None, None] * apart
        weights = (q @ k.transpose(1, 2) / q.shape[-1] ** 0.5 + bias).softmax(-1)
        return self.output["LayerNorm"](x + self.output["dense"]((weights @ v).transpose(0, 1).flatten(1)))


class JinaMlp(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gated_layers = torch.nn.Linear(config.hidden_size, 2 * config.intermediate_size, bias=False)
        self.wo = torch.nn.Linear(config.intermediate_size, config.hidden_size)
        self.layernorm = torch.nn.LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, x):
        gate, up = self.gated_layers(x).chunk(2, -1)
        return self.layernorm(x + self.wo(torch.nn.functional.gelu(gate) * up))


class JinaBertModel(torch.nn.Module):
    """BERT without a table of positions, with scores less slope times distance, and a gated feed-forward."""

    base_model_prefix = "bert"

    def __init__(self, config):
        super().__init__()
        width, self.config = config.hidden_size, config
        self.embeddings = torch.nn.ModuleDict({
            "word_embeddings": torch.nn.Embedding(config.vocab_size, width),
            "token_type_embeddings": torch.nn.Embedding(config.type_vocab_size, width),
            "LayerNorm": torch.nn.LayerNorm(width, config.layer_norm_eps)})
        self.encoder = torch.nn.ModuleDict({"layer": torch.nn.ModuleList(
            torch.nn.ModuleDict({"attention": JinaAttention(config), "mlp": JinaMlp(config)})
            for _ in range(config.num_hidden_layers))})
        self.pooler = torch.nn.ModuleDict({"dense": torch.nn.Linear(width, width)})

    @classmethod
    def _from_config(cls, config, attn_implementation, dtype):
        return cls(config).to(dtype)

    def forward(self, input_ids, attention_mask, token_type_ids):
        e = self.embeddings
        x = e["LayerNorm"](e["word_embeddings"](input_ids[0]) + e["token_type_embeddings"](token_type_ids[0]))
        for layer in self.encoder["layer"]:
            x = layer["mlp"](layer["attention"](x))
        return types.SimpleNamespace(last_hidden_state=x[None],
                                     pooler_output=torch.tanh(self.pooler["dense"](x[:1])))


JINA = [
    Later("jina", JinaConfig, JinaBertModel, dict(SIZES)),
    Later("jina-odd", JinaConfig, JinaBertModel,
          {**SIZES, "hidden_size": 48, "num_attention_heads": 6, "max_position_embeddings": 150}, "BF16", True,
          lengths=[3, 64, 150]),
]
JINA_TRAINED = [Later("train-jina", JinaConfig, JinaBertModel, {**SIZES, **SMALL})]

# ---- Jina v2 for code ----


class CodeConfig(JinaConfig):
    def to_json_string(self, use_diff):
        config = json.loads(super().to_json_string(use_diff))
        config.update(_name_or_path="jinaai/jina-bert-v2-qk-post-norm", auto_map={
            "AutoModel": "jinaai/jina-bert-v2-qk-post-norm--modeling_bert.JinaBertModel"})
        return json.dumps(config)


class CodeAttention(JinaAttention):
    """The same with Q and K normed, all heads at once."""

    def __init__(self, config):
        super().__init__(config)
        for part in ("layer_norm_q", "layer_norm_k"):
            self.self[part] = torch.nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        normed = {"query": "layer_norm_q", "key": "layer_norm_k"}
        for part, norm in normed.items():
            self.self[part].register_forward_hook(lambda _, __, made, norm=norm: self.self[norm](made))


class CodeLayer(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config.hidden_size
        self.attention = CodeAttention(config)
        self.mlp = torch.nn.ModuleDict({
            "up_gated_layer": torch.nn.Linear(width, 2 * config.intermediate_size, bias=False),
            "down_layer": torch.nn.Linear(config.intermediate_size, width)})
        self.layer_norm_1 = torch.nn.LayerNorm(width, config.layer_norm_eps)
        self.layer_norm_2 = torch.nn.LayerNorm(width, config.layer_norm_eps)

    def forward(self, x):
        x = self.layer_norm_1(x + self.attention(x))
        up, gate = self.mlp["up_gated_layer"](x).chunk(2, -1)
        return self.layer_norm_2(x + self.mlp["down_layer"](up * torch.nn.functional.gelu(gate)))


class CodeBertModel(JinaBertModel):
    def __init__(self, config):
        super().__init__(config)
        self.encoder = torch.nn.ModuleDict({"layer": torch.nn.ModuleList(
            CodeLayer(config) for _ in range(config.num_hidden_layers))})

    def forward(self, input_ids, attention_mask, token_type_ids):
        e = self.embeddings
        x = e["LayerNorm"](e["word_embeddings"](input_ids[0]) + e["token_type_embeddings"](token_type_ids[0]))
        for layer in self.encoder["layer"]:
            x = layer(x)
        return types.SimpleNamespace(last_hidden_state=x[None],
                                     pooler_output=torch.tanh(self.pooler["dense"](x[:1])))


CODE = [
    Later("code", CodeConfig, CodeBertModel, dict(SIZES)),
    Later("code-odd", CodeConfig, CodeBertModel, {**SIZES, "hidden_size": 36, "num_attention_heads": 3}, "F16", True),
]
CODE_TRAINED = [Later("train-code", CodeConfig, CodeBertModel, {**SIZES, **SMALL})]

# ---- Jina v3 ----


def flash_names(names):
    """What the program that came with the first files calls them, as transformers saves them, too."""
    return renamed(names, [(r"(^|\.)layers\.", r"\1encoder.layers."), (r"self_attn\.[qkv]_proj", "mixer.Wqkv"),
                           (r"self_attn\.o_proj", "mixer.out_proj"), ("post_attention_layernorm", "norm1"),
                           ("post_mlp_layernorm", "norm2"), (r"embeddings\.LayerNorm", "emb_ln")],
                   ("q_proj", "k_proj", "v_proj"))


def flash(**more):
    return {**SIZES, "layer_norm_eps": 1e-5,
            "rope_parameters": {"rope_type": "default", "rope_theta": more.pop("rope_theta", 200.0)}, **more}


FLASH = [
    Later("jina3", hf.JinaEmbeddingsV3Config, hf.JinaEmbeddingsV3Model, flash()),
    Later("jina3-saved", hf.JinaEmbeddingsV3Config, hf.JinaEmbeddingsV3ForSequenceClassification,
          flash(rope_theta=30.0, num_attention_heads=2, vocab_size=61), "F16", True, names=flash_names),
    Later("jina3-words", hf.JinaEmbeddingsV3Config, hf.JinaEmbeddingsV3ForMaskedLM,
          flash(num_attention_heads=1, hidden_act="relu"), "F32", names=flash_names),
]
FLASH_TRAINED = [Later("train-jina3", hf.JinaEmbeddingsV3Config, hf.JinaEmbeddingsV3Model, flash(**SMALL))]

# ---- Qwen3 ----


def qwen(**more):
    """rope_theta is the base of the rotary positions."""
    own = dict(pad_token_id=0, num_key_value_heads=2, head_dim=8, rms_norm_eps=1e-6, tie_word_embeddings=True,
               rope_parameters={"rope_type": "default", "rope_theta": more.pop("rope_theta", 1000.0)})
    return {**SIZES, **own, **more}


def qwen_old_keys(config):
    """Those of files before transformers 5."""
    config.update(rope_theta=config.pop("rope_parameters")["rope_theta"], rope_scaling=None, sliding_window=None,
                  max_window_layers=28)
    config.pop("layer_types")


QWEN = [
    Later("qwen3", hf.Qwen3Config, hf.Qwen3Model, qwen()),
    # As Qwen3-Embedding's files: one of a causal language model, whose heads are wider than hidden / heads.
    Later("qwen3-wide", hf.Qwen3Config, hf.Qwen3ForCausalLM,
          qwen(head_dim=16, num_key_value_heads=1, vocab_size=61, rope_theta=100.0), "F16", True, keys=qwen_old_keys),
    Later("qwen3-rerank", hf.Qwen3Config, hf.Qwen3ForSequenceClassification,
          qwen(num_hidden_layers=3, num_labels=1, num_attention_heads=2, head_dim=12, rms_norm_eps=1e-4), "BF16", False),
    Later("qwen3-biased", hf.Qwen3Config, hf.Qwen3ForSequenceClassification,
          qwen(num_labels=3, num_key_value_heads=4, attention_bias=True), "F32", False),
]
QWEN_TRAINED = [
    Later("train-qwen3", hf.Qwen3Config, hf.Qwen3Model, {**qwen(), **SMALL, "num_key_value_heads": 1}),
    Later("train-qwen3-wide", hf.Qwen3Config, hf.Qwen3Model,
          {**qwen(rope_theta=10.0), **SMALL, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6,
           "attention_bias": True}),
]

# ---- EmbeddingGemma ----


def gemma(**more):
    """bases are those of layers that see all and of those with a window."""
    bases = more.pop("bases", (1000.0, 50.0))
    own = dict(pad_token_id=0, num_key_value_heads=1, head_dim=8, query_pre_attn_scalar=more.get("head_dim", 8),
               sliding_window=8, use_bidirectional_attention=True,
               layer_types=["sliding_attention", "full_attention"],
               rope_parameters={name: {"rope_type": "default", "rope_theta": base}
                                for name, base in zip(("full_attention", "sliding_attention"), bases)})
    return {**SIZES, **own, **more}


def gemma_old_keys(config):
    """Those of the published file."""
    bases = config.pop("rope_parameters")
    config.pop("layer_types")
    config.update(sliding_window_pattern=3, rope_theta=bases["full_attention"]["rope_theta"], rope_scaling=None,
                  rope_local_base_freq=bases["sliding_attention"]["rope_theta"], attn_logit_softcapping=None,
                  final_logit_softcapping=None)
    config.pop("_sliding_window_pattern", None)


GEMMA = [
    Later("gemma", hf.Gemma3TextConfig, hf.Gemma3TextModel, gemma()),
    Later("gemma-old", hf.Gemma3TextConfig, hf.Gemma3TextModel,
          gemma(num_hidden_layers=4, head_dim=16, vocab_size=61, sliding_window=12, num_key_value_heads=2,
                layer_types=["sliding_attention"] * 2 + ["full_attention", "sliding_attention"], bases=(100.0, 10.0)),
          "BF16", True, keys=gemma_old_keys),
    # As wide against its heads as the published one: none of its keys is near zero before its norm.
    Later("gemma-wide", hf.Gemma3TextConfig, hf.Gemma3TextModel,
          gemma(hidden_size=128, num_attention_heads=2, head_dim=64, intermediate_size=192, num_hidden_layers=4,
                layer_types=["sliding_attention"] * 3 + ["full_attention"]), "BF16", lengths=[1, 7, 20]),
]
GEMMA_TRAINED = [Later("train-gemma", hf.Gemma3TextConfig, hf.Gemma3TextModel,
                       {**gemma(sliding_window=6), **SMALL})]

# ---- rotary positions that stretch for texts longer than those of training ----
# Lengths rise: transformers goes on with the largest base that a text had so far until one is shorter than those of
# training. Here a text's own length decides.

DYNAMIC_LENGTHS = [1, 16, 17, 24, 40]


def dynamic(base, factor=2.5, **more):
    return {**SIZES, "max_position_embeddings": 16,
            "rope_parameters": {"rope_type": "dynamic", "rope_theta": base, "factor": factor}, **more}


def nomic_names(names):
    return renamed(names, [(r"^layers\.", "encoder.layers."), (r"embeddings\.LayerNorm", "emb_ln"),
                           (r"self_attn\.[qkv]_proj", "attn.Wqkv"), (r"self_attn\.o_proj", "attn.out_proj"),
                           (r"mlp\.up_proj", "mlp.fc11"), (r"mlp\.gate_proj", "mlp.fc12"),
                           (r"mlp\.down_proj", "mlp.fc2"), ("post_attention_layernorm", "norm1"),
                           ("post_mlp_layernorm", "norm2")], ("q_proj", "k_proj", "v_proj"))


def nomic_dynamic_keys(config):
    config.update(n_positions=48, max_trained_positions=16, rotary_scaling_factor=2.5)


def modern_dynamic(**more):
    sizes = modern(max_position_embeddings=16, **more)
    sizes["rope_parameters"]["full_attention"] = {"rope_type": "dynamic", "rope_theta": 200.0, "factor": 2.5}
    return sizes


def qwen_dynamic_keys(config):
    parameters = config.pop("rope_parameters")
    config.update(rope_theta=parameters["rope_theta"], rope_scaling={"type": "dynamic", "factor": parameters["factor"]})


DYNAMIC = [
    Later("stretched", hf.NomicBertConfig, hf.NomicBertModel, dynamic(100.0), lengths=DYNAMIC_LENGTHS),
    Later("nomic-dynamic-published", hf.NomicBertConfig, hf.NomicBertModel,
          dynamic(50.0, num_attention_heads=2, vocab_size=61), "F16", lengths=DYNAMIC_LENGTHS + [48],
          names=nomic_names, keys=nomic_dynamic_keys),
    Later("gte-dynamic", hf.GteConfig, hf.GteModel, dynamic(100.0), lengths=DYNAMIC_LENGTHS),
    Later("modernbert-dynamic", hf.ModernBertConfig, hf.ModernBertModel, modern_dynamic(), lengths=DYNAMIC_LENGTHS),
    Later("qwen3-dynamic", hf.Qwen3Config, hf.Qwen3Model, {**qwen(), **dynamic(200.0)}, lengths=DYNAMIC_LENGTHS,
          keys=qwen_dynamic_keys),
]
SHORT = {**SMALL, "max_position_embeddings": 8}
DYNAMIC_TRAINED = [
    Later("train-nomic-dynamic", hf.NomicBertConfig, hf.NomicBertModel, {**dynamic(10.0), **SHORT}),
    Later("train-qwen3-dynamic", hf.Qwen3Config, hf.Qwen3Model,
          {**qwen(), **dynamic(10.0), **SHORT, "num_key_value_heads": 1}),
]

# ---- NomicBERT's mixtures of experts ----

MIXTURES = [
    Later("mixture", MixtureConfig, NomicMixtureModel, dict(SIZES)),
    # More experts than some texts have rows for, the last layer without any.
    Later("mixture-odd", MixtureConfig, NomicMixtureModel,
          {**SIZES, "hidden_size": 30, "num_attention_heads": 3, "intermediate_size": 21, "num_hidden_layers": 3,
           "num_experts": 7, "moe_top_k": 3, "moe_normalize_expert_weights": True, "type_vocab_size": 2,
           "activation_function": "gelu_new"}, "BF16", True),
]
MIXTURES_TRAINED = [
    Later("train-mixture", MixtureConfig, NomicMixtureModel,
          {**SIZES, **SMALL, "intermediate_size": 8, "num_experts": 6}),
    Later("train-mixture-normalized", MixtureConfig, NomicMixtureModel,
          {**SIZES, **SMALL, "intermediate_size": 8, "num_experts": 5, "moe_top_k": 3, "moe_normalize_expert_weights": True}),
]

MODELS = GTE + MODERN + JINA + FLASH + QWEN + GEMMA + DYNAMIC + CODE + MIXTURES
TRAINED = (GTE_TRAINED + MODERN_TRAINED + JINA_TRAINED + FLASH_TRAINED + QWEN_TRAINED + GEMMA_TRAINED +
           DYNAMIC_TRAINED + CODE_TRAINED + MIXTURES_TRAINED)
