#!/usr/bin/env python3
"""Makes what tests/test_architectures.c compares with: for each architecture several tiny models, whose weights are a
function of their names (tests/model_files.h, tiny_value), run by transformers in float64.

usage: make_architectures.py [--later | --bf16]   (writes architectures.json and architectures.safetensors beside itself;
with --later what later_models.py has anew and the rest as it was; with --bf16 nothing but each model's "bf16")

architectures.json has a model's config.json and the names and shapes of its tensors, as transformers gives them, and as
"bf16" what storing in bf16 costs there: the least cosine of a token's vector with that in float64;
architectures.safetensors its batches and what comes out: NAME/ids, NAME/types, NAME/offsets, NAME/y [tokens, hidden],
NAME/pooled [sequences, hidden] where there is a pooler; of models for training NAME/dy [sequences, hidden], the loss
gradient of the mean of each sequence's tokens, and NAME/d.TENSOR.

Made with torch 2.11 and transformers 5.23, NomicBERT and what came later with torch 2.15
and transformers 5.24.
"""

import json
import os
import sys

import numpy as np
import torch
import transformers as hf
from safetensors.numpy import load_file, save_file

import later_models

HERE = os.path.dirname(os.path.abspath(__file__))
MASK = 2**64 - 1


def tiny_values(name, count):
    """The values that tests/model_files.h gives a tensor of this name."""
    h = 0xCBF29CE484222325
    for c in name.encode():
        h = ((h ^ c) * 0x100000001B3) & MASK
    elements = np.arange(count, dtype=np.uint64)
    with np.errstate(over="ignore"):
        mixed = ((np.uint64(h) ^ elements) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)
    if any(norm in name for norm in ("LayerNorm.weight", "layer_norm.weight", "layernorm.weight", "emb_ln.weight", "norm1.weight", "norm2.weight",
                                  "attn_ln.weight", "mlp_ln.weight", "norm.weight", "layer_norm_q.weight", "layer_norm_k.weight",
                                  "layer_norm_1.weight", "layer_norm_2.weight")):
        return 1 + ((mixed & np.uint64(31)).astype(np.float64) - 16) / 128
    return ((mixed & np.uint64(127)).astype(np.float64) - 63) / 256


def bert_like(**more):
    sizes = dict(vocab_size=97, num_hidden_layers=2, hidden_size=32, num_attention_heads=4, intermediate_size=48,
                 max_position_embeddings=40)
    return {**sizes, **more}


def distil(**more):
    sizes = dict(vocab_size=97, n_layers=2, dim=32, n_heads=4, hidden_dim=48, max_position_embeddings=40)
    return {**sizes, **more}


def nomic(**more):
    """rope_theta is the base of the rotary positions."""
    sizes = bert_like(rope_parameters={"rope_type": "default", "rope_theta": more.pop("rope_theta", 1000.0)})
    return {**sizes, **more}


# What transformers' names of NomicBERT are in the files that came first, and its keys.
PUBLISHED = [("embeddings.LayerNorm", "emb_ln"), ("self_attn.o_proj", "attn.out_proj"), ("mlp.up_proj", "mlp.fc11"),
             ("mlp.gate_proj", "mlp.fc12"), ("mlp.down_proj", "mlp.fc2"), ("post_attention_layernorm", "norm1"),
             ("post_mlp_layernorm", "norm2")]


SMALL = dict(vocab_size=29, hidden_size=16, num_attention_heads=2, intermediate_size=24, max_position_embeddings=14)
SMALL_DISTIL = dict(vocab_size=29, dim=16, n_heads=2, hidden_dim=24, max_position_embeddings=14)

# name, config's class, model's class, its sizes, the files' type, whether in two files, pad tokens inside texts. The
# first of each architecture has one shape, so that drivers compile its kernels once for all.
MODELS = [
    ("bert", hf.BertConfig, hf.BertModel, bert_like(), "F32", False, False),
    ("bert-task", hf.BertConfig, hf.BertForSequenceClassification,
     bert_like(hidden_act="relu", vocab_size=61, num_attention_heads=2, type_vocab_size=1), "F16", False, False),
    ("bert-sharded", hf.BertConfig, hf.BertModel,
     bert_like(hidden_act="gelu_new", num_attention_heads=1, layer_norm_eps=1e-5), "BF16", True, False),
    ("roberta", hf.RobertaConfig, hf.RobertaModel, bert_like(type_vocab_size=1, layer_norm_eps=1e-5), "F32", False, False),
    ("roberta-padded", hf.RobertaConfig, hf.RobertaForMaskedLM,
     bert_like(hidden_act="relu", num_attention_heads=2, vocab_size=63), "F16", False, True),
    ("xlm-roberta", hf.XLMRobertaConfig, hf.XLMRobertaModel,
     bert_like(type_vocab_size=1, num_attention_heads=2, max_position_embeddings=66), "BF16", True, False),
    ("camembert", hf.CamembertConfig, hf.CamembertForTokenClassification,
     bert_like(type_vocab_size=1, num_attention_heads=1, pad_token_id=4, hidden_act="gelu_fast"), "F32", False, True),
    ("distilbert", hf.DistilBertConfig, hf.DistilBertModel, distil(), "F32", False, False),
    ("distilbert-sines", hf.DistilBertConfig, hf.DistilBertForSequenceClassification,
     distil(sinusoidal_pos_embds=True, activation="relu", n_heads=2, vocab_size=45), "F16", False, False),
    ("distilbert-sharded", hf.DistilBertConfig, hf.DistilBertModel, distil(n_layers=3, n_heads=1), "BF16", True, False),
    ("electra", hf.ElectraConfig, hf.ElectraModel, bert_like(embedding_size=16), "F32", False, False),
    ("electra-odd", hf.ElectraConfig, hf.ElectraForPreTraining,
     bert_like(embedding_size=25, hidden_act="gelu_new", num_attention_heads=2, vocab_size=51), "F16", True, False),
    ("electra-wide", hf.ElectraConfig, hf.ElectraModel, bert_like(embedding_size=32, num_attention_heads=1), "BF16",
     False, False),
    ("mpnet", hf.MPNetConfig, hf.MPNetModel, bert_like(layer_norm_eps=1e-5), "F32", False, False),
    ("mpnet-task", hf.MPNetConfig, hf.MPNetForSequenceClassification,
     bert_like(hidden_act="relu", num_attention_heads=2, vocab_size=71, max_position_embeddings=303), "F16", False, True),
    ("mpnet-sharded", hf.MPNetConfig, hf.MPNetModel, bert_like(num_hidden_layers=3, num_attention_heads=1), "BF16",
     True, False),
]
TRAINED = [
    ("train-bert", hf.BertConfig, hf.BertModel, bert_like(**SMALL)),
    ("train-roberta", hf.RobertaConfig, hf.RobertaModel, bert_like(type_vocab_size=1, **SMALL)),
    ("train-distilbert", hf.DistilBertConfig, hf.DistilBertModel, distil(**SMALL_DISTIL)),
    ("train-electra", hf.ElectraConfig, hf.ElectraModel, bert_like(embedding_size=8, **SMALL)),
    ("train-mpnet", hf.MPNetConfig, hf.MPNetModel, bert_like(**SMALL)),
]

# Those that came later, with random numbers of their own: "published" has the first files' names and keys.
LATER = [
    ("nomic", hf.NomicBertConfig, hf.NomicBertModel, nomic(), "F32", False, False),
    ("nomic-published", hf.NomicBertConfig, hf.NomicBertModel,
     nomic(rope_theta=100.0, num_attention_heads=2, vocab_size=61), "F16", True, False),
    ("nomic-task", hf.NomicBertConfig, hf.NomicBertForSequenceClassification,
     nomic(hidden_act="gelu", num_attention_heads=1, num_hidden_layers=3, layer_norm_eps=1e-5), "BF16", False, False),
]
LATER_TRAINED = [
    ("train-nomic", hf.NomicBertConfig, hf.NomicBertModel, nomic(**SMALL)),
    ("train-nomic-published", hf.NomicBertConfig, hf.NomicBertModel, nomic(rope_theta=10.0, **SMALL)),
]


def published_names(names):
    """Of each name in the published files, those of transformers' that it has one after the other."""
    found = {}
    for name in names:
        published = "encoder." + name if name.startswith("layers.") else name
        for new, old in PUBLISHED:
            published = published.replace(new, old)
        for part in "qkv":
            published = published.replace("self_attn.%s_proj" % part, "attn.Wqkv")
        found.setdefault(published, []).append(name)
    return found


def published_config(config):
    """The keys that the first files have."""
    return {"model_type": "nomic_bert", "architectures": ["NomicBertModel"],
            "auto_map": {"AutoModel": "nomic-ai/nomic-bert-2048--modeling_hf_nomic_bert.NomicBertModel"},
            "activation_function": "swiglu", "n_embd": config.hidden_size, "n_head": config.num_attention_heads,
            "n_inner": config.intermediate_size, "n_layer": config.num_hidden_layers,
            "n_positions": config.max_position_embeddings, "vocab_size": config.vocab_size, "type_vocab_size": 2,
            "layer_norm_epsilon": config.layer_norm_eps, "max_trained_positions": 2048, "mlp_fc1_bias": False,
            "mlp_fc2_bias": False, "qkv_proj_bias": False, "prenorm": False, "parallel_block": False, "causal": False,
            "rotary_emb_base": config.rope_parameters["rope_theta"], "rotary_emb_fraction": 1.0,
            "rotary_emb_interleaved": False, "rotary_emb_scale_base": None, "rotary_scaling_factor": None,
            "use_rms_norm": False}


def publish(model, tensors, names_of=published_names):
    """Gives the model the values of its published names; returns their shapes."""
    state, shapes = model.state_dict(), {}
    for published, names in names_of(list(tensors)).items():
        shape = list(state[names[0]].shape)
        shape[0] *= len(names)
        values = torch.from_numpy(tiny_values(published, int(np.prod(shape))).reshape(shape))
        for name, part in zip(names, values.chunk(len(names))):
            state[name].copy_(part)
        shapes[published] = shape
    return shapes


def around_zero(config):
    """Whether norms multiply by 1 + w: then w has other values."""
    return getattr(config, "model_type", "") == "gemma3_text"


def make_model(config_class, model_class, sizes):
    """The model, and the shapes of its tensors: of tied ones the word table, or the first, as in a saved folder."""
    config = config_class(**sizes)
    config.architectures = [model_class.__name__]
    model = model_class._from_config(config, attn_implementation="eager", dtype=torch.float64).eval()
    state, names = model.state_dict(), {}
    for name in sorted(state, key=lambda n: not n.endswith(("word_embeddings.weight", "tok_embeddings.weight", "embed_tokens.weight"))):
        names.setdefault(state[name].data_ptr(), name)
    tensors = {name: value for name, value in state.items() if name in names.values()}
    for name, value in tensors.items():
        valued = name.replace("norm.weight", "none.weight") if around_zero(config) else name
        value.copy_(torch.from_numpy(tiny_values(valued, value.numel()).reshape(value.shape)))
    return model, {name: list(value.shape) for name, value in tensors.items()}


def make_batch(random, config, padding, lengths):
    pad = config.pad_token_id
    types = getattr(config, "type_vocab_size", 0)
    ids = [random.integers(0, config.vocab_size, n) for n in lengths]
    for text in ids:
        text[text == pad] = (pad + 1) % config.vocab_size
        if padding and len(text) > 4:
            text[[2, 3, len(text) - 1]] = pad
    kinds = [np.sort(random.integers(0, max(types, 1), n)) for n in lengths]
    return ids, kinds, types


def run(model, ids, kinds, types):
    # The encoder of a task's model: the same weights.
    encoder = getattr(model, model.base_model_prefix, model)
    outputs = []
    for text, kind in zip(ids, kinds):
        more = {"token_type_ids": torch.from_numpy(kind)[None]} if types else {}
        outputs.append(encoder(input_ids=torch.from_numpy(text)[None], attention_mask=torch.ones(1, len(text)), **more))
    return outputs


def describe(name, model, tensors, dtype, sharded):
    config = json.loads(model.config.to_json_string(use_diff=True))
    if name.endswith("-published"):
        config = published_config(model.config)
    for key in ("transformers_version", "initializer_range", "use_cache", "dtype", "id2label", "label2id"):
        config.pop(key, None)
    return {"name": name, "dtype": dtype, "sharded": sharded, "config": config,
            "tensors": [[n, shape] for n, shape in tensors.items()]}


def store(arrays, name, ids, kinds, types):
    arrays[name + "/ids"] = np.concatenate(ids).astype(np.int32)
    if types:
        arrays[name + "/types"] = np.concatenate(kinds).astype(np.int32)
    arrays[name + "/offsets"] = np.cumsum([0] + [len(t) for t in ids]).astype(np.uint32)


def keep(arrays, name, outputs):
    """Of a long text every seventh row."""
    rows = [o.last_hidden_state[0].numpy() for o in outputs]
    arrays[name + "/y"] = np.concatenate([r[:: 7 if len(r) > 64 else 1] for r in rows]).astype(np.float32)
    pooled = [getattr(o, "pooler_output", None) for o in outputs]
    if pooled[0] is not None:
        arrays[name + "/pooled"] = np.concatenate([p.numpy() for p in pooled]).astype(np.float32)


def keep_logits(arrays, name, model, ids, kinds, types):
    """Of classes of texts and of tokens all; of words those for the last token of each text."""
    rows = []
    for text, kind in zip(ids, kinds):
        more = {"token_type_ids": torch.from_numpy(kind)[None]} if types else {}
        logits = model(input_ids=torch.from_numpy(text)[None], attention_mask=torch.ones(1, len(text)), **more).logits
        rows.append(logits.reshape(-1, logits.shape[-1])[-1 if "MaskedLM" in type(model).__name__ else 0:])
    arrays[name + "/logits"] = np.concatenate([r.numpy() for r in rows]).astype(np.float32)


def train(arrays, name, model, random, batch, names_of):
    ids, kinds, types = batch
    dy = random.standard_normal((len(ids), model.config.hidden_size)).astype(np.float32)
    loss = 0
    for o, gradient in zip(run(model, ids, kinds, types), dy):
        loss = loss + (o.last_hidden_state[0].mean(0) * torch.from_numpy(gradient.astype(np.float64))).sum()
    loss.backward()
    arrays[name + "/dy"] = dy
    gradients = {parameter: value.grad.numpy().astype(np.float32) for parameter, value in model.named_parameters()
                 if value.grad is not None and not parameter.startswith("pooler.")}
    if names_of:
        gradients = {published: np.concatenate([gradients[n] for n in names])
                     for published, names in names_of(list(gradients)).items()}
    for parameter, gradient in gradients.items():
        arrays["%s/d.%s" % (name, parameter)] = gradient


def cost_of_bf16(model, batch):
    """The least cosine of a token's vector when the same classes have weights and results in bf16."""
    with torch.no_grad():
        exact = run(model, *batch)
        narrow = run(model.to(torch.bfloat16), *batch)
    return min(torch.nn.functional.cosine_similarity(a.last_hidden_state[0], b.last_hidden_state[0].double(), dim=1).min().item()
               for a, b in zip(exact, narrow))


def first_batch(random, config, padding):
    unmoved = (hf.BertConfig, hf.DistilBertConfig, hf.ElectraConfig, hf.NomicBertConfig)
    offset = 0 if isinstance(config, unmoved) else config.pad_token_id + 1
    return make_batch(random, config, padding, [1, 7, 20, config.max_position_embeddings - offset])


def later_batch(m, random, config):
    lengths = m.lengths or ([1, 9, 12] if m.name.startswith("train-") else [1, 7, 20, config.max_position_embeddings])
    return make_batch(random, config, False, lengths)


def add_bf16(described):
    """To each description of a model that is not there to be trained, whose text is made as make_first and make_later do."""
    torch.set_num_threads(1)
    first, later, costs = np.random.default_rng(20), np.random.default_rng(24), {}
    for name, config_class, model_class, sizes, _, _, padding in MODELS + LATER:
        model, _ = make_model(config_class, model_class, sizes)
        costs[name] = cost_of_bf16(model, first_batch(later if name.startswith("nomic") else first, model.config, padding))
    for m in later_models.MODELS:
        model, _ = make_model(m.config, m.model, m.sizes)
        random = m.random()
        if m.change:
            m.change(getattr(model, model.base_model_prefix, model))
        costs[m.name] = cost_of_bf16(model, later_batch(m, random, model.config))
    for description in described:
        if description["name"] in costs:
            description["bf16"] = round(costs[description["name"]], 6)


def make_first(described, arrays):
    random = first = np.random.default_rng(20)
    later = np.random.default_rng(24)
    for name, config_class, model_class, sizes, dtype, sharded, padding in MODELS + LATER:
        model, tensors = make_model(config_class, model_class, sizes)
        config = model.config
        if name.startswith("nomic"):
            random = later
        if name.endswith("-published"):
            tensors = publish(model, tensors)
        ids, kinds, types = first_batch(random, config, padding)
        with torch.no_grad():
            outputs = run(model, ids, kinds, types)
        described.append(describe(name, model, tensors, dtype, sharded))
        store(arrays, name, ids, kinds, types)
        keep(arrays, name, outputs)
    for name, config_class, model_class, sizes in TRAINED + LATER_TRAINED:
        random = later if "nomic" in name else first
        model, tensors = make_model(config_class, model_class, sizes)
        if name.endswith("-published"):
            tensors = publish(model, tensors)
        ids, kinds, types = make_batch(random, model.config, False, [1, 9, 12])
        described.append(describe(name, model, tensors, "F32", False))
        store(arrays, name, ids, kinds, types)
        train(arrays, name, model, random, (ids, kinds, types),
              published_names if name.endswith("-published") else None)


def make_later(m, described, arrays):
    model, tensors = make_model(m.config, m.model, m.sizes)
    random, trained = m.random(), m.name.startswith("train-")
    if m.names:
        tensors = publish(model, tensors, m.names)
    if m.change:
        m.change(getattr(model, model.base_model_prefix, model))
    batch = later_batch(m, random, model.config)
    description = describe(m.name, model, tensors, m.dtype, m.sharded)
    if getattr(model.config, "num_labels", 2) != 2:
        description["config"]["num_labels"] = model.config.num_labels
    if around_zero(model.config):
        description["around_zero"] = True
    if m.keys:
        m.keys(description["config"])
    described.append(description)
    store(arrays, m.name, *batch)
    if trained:
        train(arrays, m.name, model, random, batch, m.names)
        return
    with torch.no_grad():
        keep(arrays, m.name, run(model, *batch))
        if m.model.__name__.split("For")[-1] in ("SequenceClassification", "TokenClassification", "MaskedLM"):
            keep_logits(arrays, m.name, model, *batch)


def main():
    described, arrays = [], {}
    later = later_models.MODELS + later_models.TRAINED
    kept = {m.name for m in later} if sys.argv[1:] == ["--later"] else set()
    if sys.argv[1:] in (["--later"], ["--bf16"]):
        with open(os.path.join(HERE, "architectures.json"), encoding="utf-8") as file:
            described = [d for d in json.load(file) if d["name"] not in kept]
        arrays = {key: value for key, value in load_file(os.path.join(HERE, "architectures.safetensors")).items()
                  if key.split("/")[0] not in kept}
    else:
        make_first(described, arrays)
    if sys.argv[1:] != ["--bf16"]:
        for m in later:
            make_later(m, described, arrays)
        save_file(arrays, os.path.join(HERE, "architectures.safetensors"))
    add_bf16(described)
    with open(os.path.join(HERE, "architectures.json"), "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(d, separators=(",", ":")) for d in described) + "\n]\n")


if __name__ == "__main__":
    main()
