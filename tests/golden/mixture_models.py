"""NomicBERT with mixtures of experts, which no class of transformers is: by what the published files say of it and the
names that they have. For later_models.py."""

import json
import types

import torch


class MixtureConfig:
    """What its config.json has: the keys of the first files."""

    KEYS = {"hidden_size": "n_embd", "num_attention_heads": "n_head", "intermediate_size": "n_inner",
            "num_hidden_layers": "n_layer", "max_position_embeddings": "n_positions"}

    def __init__(self, **sizes):
        self.pad_token_id, self.architectures = 1, []
        self.values = {"layer_norm_epsilon": 1e-5, "activation_function": "gelu", "type_vocab_size": 1,
                       "rotary_emb_base": 100.0, "moe_every_n_layers": 2, "num_experts": 8, "moe_top_k": 2,
                       "moe_normalize_expert_weights": False, **sizes}
        self.__dict__.update(self.values)

    def to_json_string(self, use_diff):
        own = {self.KEYS.get(key, key): value for key, value in self.values.items()}
        return json.dumps({**own, "model_type": "nomic_bert", "architectures": ["NomicBertModel"],
                           "auto_map": {"AutoModel": "nomic-ai/nomic-bert-2048--modeling_hf_nomic_bert.NomicBertModel"},
                           "mlp_fc1_bias": True, "mlp_fc2_bias": True, "qkv_proj_bias": True, "prenorm": False,
                           "parallel_block": False, "causal": False, "rotary_emb_fraction": 1.0,
                           "rotary_emb_interleaved": False, "rotary_emb_scale_base": None,
                           "rotary_scaling_factor": None, "use_rms_norm": False, "num_shared_experts": 0,
                           "expert_choice_router": False, "ffn_div": 1, "moe_impl": "megablocks"})


class Attention(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads, self.base = config.num_attention_heads, config.rotary_emb_base
        self.Wqkv = torch.nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.out_proj = torch.nn.Linear(config.hidden_size, config.hidden_size)

    def turn(self, x):
        """Channel c and the one half a head after it, by position / base^(2c / channels)."""
        half = x.shape[-1] // 2
        angles = torch.arange(x.shape[1], dtype=x.dtype)[:, None] * self.base ** (
            -torch.arange(half, dtype=x.dtype) / half)
        first, second = x[..., :half], x[..., half:]
        return torch.cat([first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin()],
                         -1)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(0, 1) for part in self.Wqkv(x).chunk(3, -1))
        weights = (self.turn(q) @ self.turn(k).transpose(1, 2) / q.shape[-1] ** 0.5).softmax(-1)
        return self.out_proj((weights @ v).transpose(0, 1).flatten(1))


def activate(config, x):
    tanh = "none" if config.activation_function == "gelu" else "tanh"
    return torch.nn.functional.gelu(x, approximate=tanh)


class Mlp(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.fc1 = torch.nn.Linear(config.hidden_size, config.intermediate_size)
        self.fc2 = torch.nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, x):
        return self.fc2(activate(self.config, self.fc1(x)))


class Experts(torch.nn.Module):
    """Their matrices lie one under the other; the second ones as [feed-forward, hidden]."""

    def __init__(self, config):
        super().__init__()
        rows = config.num_experts * config.intermediate_size
        self.mlp = torch.nn.ParameterDict({name: torch.empty(rows, config.hidden_size) for name in ("w1", "w2")})
        self.bias = torch.nn.Parameter(torch.empty(config.hidden_size))


class Mixture(torch.nn.Module):
    """Of each token the experts whose softmax is largest, each weighted by it."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.router = torch.nn.ModuleDict({"layer": torch.nn.Linear(config.hidden_size, config.num_experts,
                                                                    bias=False)})
        self.experts = Experts(config)

    def forward(self, x):
        config = self.config
        weights, chosen = self.router["layer"](x).softmax(-1).topk(config.moe_top_k, -1)
        if config.moe_normalize_expert_weights:
            weights = weights / weights.sum(-1, keepdim=True)
        first, second = (self.experts.mlp[name].unflatten(0, (config.num_experts, -1)) for name in ("w1", "w2"))
        rows = []
        for row, own, numbers in zip(x, weights, chosen):
            made = [weight * (activate(config, first[n] @ row) @ second[n]) for weight, n in zip(own, numbers)]
            rows.append(sum(made) + self.experts.bias)
        return torch.stack(rows)


class Layer(torch.nn.Module):
    def __init__(self, config, number):
        super().__init__()
        self.attn = Attention(config)
        self.mlp = Mixture(config) if number % config.moe_every_n_layers == 1 else Mlp(config)
        self.norm1, self.norm2 = (torch.nn.LayerNorm(config.hidden_size, config.layer_norm_epsilon) for _ in range(2))

    def forward(self, x):
        x = self.norm1(x + self.attn(x))
        return self.norm2(x + self.mlp(x))


class NomicMixtureModel(torch.nn.Module):
    base_model_prefix = "nomic"

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embeddings = torch.nn.ModuleDict({
            "word_embeddings": torch.nn.Embedding(config.vocab_size, config.hidden_size),
            "token_type_embeddings": torch.nn.Embedding(config.type_vocab_size, config.hidden_size)})
        self.emb_ln = torch.nn.LayerNorm(config.hidden_size, config.layer_norm_epsilon)
        self.encoder = torch.nn.ModuleDict({"layers": torch.nn.ModuleList(
            Layer(config, number) for number in range(config.num_hidden_layers))})

    @classmethod
    def _from_config(cls, config, attn_implementation, dtype):
        return cls(config).to(dtype)

    def forward(self, input_ids, attention_mask, token_type_ids):
        e = self.embeddings
        x = self.emb_ln(e["word_embeddings"](input_ids[0]) + e["token_type_embeddings"](token_type_ids[0]))
        for layer in self.encoder["layers"]:
            x = layer(x)
        return types.SimpleNamespace(last_hidden_state=x[None])
