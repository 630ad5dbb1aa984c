"""Tiny decoders as folders: Qwen3 that is asked whether a document answers a query (Qwen3-Reranker in its own form, with
sentence-transformers' LogitScore, and as a classifier that is given messages), and EmbeddingGemma with its two Dense
modules. make_questions.py asks the reference libraries what they give, tests/cli/test_questions.py asks wherry.

usage: question_models.py KIND FOLDER
"""

import os
import sys

import heads_models
from heads_models import byte_alphabet, labels, write_json, write_weights

# As the first models of both architectures have in architectures.json: drivers compile few kernels anew then.
HIDDEN, LAYERS, HEADS, KEY_HEADS, HEAD, FEED_FORWARD, POSITIONS = 32, 2, 4, 2, 8, 48, 256
PREFIX = ('<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct '
          'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n')
SUFFIX = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"]
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)"
         r"|\s+")


def content(role, default=None):
    otherwise = f' | default("{default}")' if default else ""
    return f'messages | selectattr("role", "eq", "{role}") | map(attribute="content") | first{otherwise}'


# An ordinary chat's: roles come from the messages, and none of them is a query or a document.
CHAT = ("{%- for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}"
        "{%- endfor %}{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}")
# As the published file: names are set first, with no white space left of it.
NAMED = (f'{{%- set instruction = {content("system", INSTRUCTION)} -%}}\n{{%- set query_text = {content("query")} -%}}\n'
         f'{{%- set document_text = {content("document")} -%}}\n' + PREFIX +
         "<Instruct>: {{ instruction }}\n<Query>: {{ query_text }}\n<Document>: {{ document_text }}" + SUFFIX + "\n")
PLAIN = ('question:{{ (messages | selectattr("role", "eq", "query") | first).content }}\n {# two lines between #}\n'
         '{{ "\\n" }}passage:{{- (messages | selectattr("role", "eq", "document") | first).content -}}  \n yes or no?\n')
# Template, where it is, whether the word table is the output matrix, LogitScore.
KINDS = {"ask": (CHAT, "config", True, None), "ask-untied": (NAMED, "file", False, ("yes", "no")),
         "ask-true": (PLAIN, "list", True, ("no", None)), "ask-messages": (NAMED, "file", True, None)}


def words():
    texts = " ".join(heads_models.WORDS) + " yes no Yes No " + PREFIX + SUFFIX + INSTRUCTION + " assistant question passage"
    for mark in "<>|:.,\"?!/":
        texts = texts.replace(mark, " ")
    return list(dict.fromkeys(texts.split()))


def merges():
    alphabet, found = byte_alphabet(), {}
    for word in (space + word for word in words() for space in ("", " ")):
        spelled = [alphabet[byte] for byte in word.encode()]
        for n in range(1, len(spelled)):
            found["".join(spelled[:n]), spelled[n]] = None
    return list(found)


def vocabulary():
    return [*byte_alphabet().values(), *dict.fromkeys(a + b for a, b in merges())]


def tokenizer():
    known = vocabulary()
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": len(known) + n, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": "think" not in token} for n, token in enumerate(SPECIAL)],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": SPLIT}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}]},
        "post_processor": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                  "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {word: n for n, word in enumerate(known)}, "merges": [list(m) for m in merges()]},
    }


def tensors(prefix, norms, key_heads=KEY_HEADS):
    size = len(vocabulary()) + len(SPECIAL)
    shapes = {prefix + "embed_tokens.weight": [size, HIDDEN], prefix + "norm.weight": [HIDDEN]}
    for layer in range(LAYERS):
        at = f"{prefix}layers.{layer}."
        shapes.update({at + name + ".weight": [HIDDEN] for name in norms})
        for name, rows, columns in (("q", HEADS * HEAD, HIDDEN), ("k", key_heads * HEAD, HIDDEN),
                                    ("v", key_heads * HEAD, HIDDEN), ("o", HIDDEN, HEADS * HEAD)):
            shapes[f"{at}self_attn.{name}_proj.weight"] = [rows, columns]
        shapes.update({f"{at}self_attn.{name}_norm.weight": [HEAD] for name in "qk"})
        shapes.update({f"{at}mlp.{name}_proj.weight": [FEED_FORWARD, HIDDEN] for name in ("gate", "up")})
        shapes[at + "mlp.down_proj.weight"] = [HIDDEN, FEED_FORWARD]
    return shapes


def write_tokenizer(folder, template=None):
    write_json(folder, "tokenizer.json", tokenizer())
    write_json(folder, "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": POSITIONS, "pad_token": SPECIAL[0],
        "eos_token": SPECIAL[2], **({"chat_template": template} if template else {})})


def write_chain(folder, *modules):
    write_json(folder, "modules.json", [{"idx": n, "name": str(n), "path": path, "type": "sentence_transformers." + kind}
                                        for n, (path, kind) in enumerate(modules)])


SHAPE = {"vocab_size": len(vocabulary()) + len(SPECIAL), "hidden_size": HIDDEN, "num_hidden_layers": LAYERS,
         "num_attention_heads": HEADS, "num_key_value_heads": KEY_HEADS, "head_dim": HEAD,
         "intermediate_size": FEED_FORWARD, "max_position_embeddings": POSITIONS, "rms_norm_eps": 1e-6,
         "pad_token_id": len(vocabulary())}


def write_question(kind, folder):
    template, place, tied, score = KINDS[kind]
    known = vocabulary()
    classes = kind == "ask-messages"
    write_json(folder, "config.json", {
        **SHAPE, "model_type": "qwen3", "architectures": ["Qwen3For" + ("SequenceClassification" if classes else "CausalLM")],
        "hidden_act": "silu", "tie_word_embeddings": tied, "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0},
        **(labels("LABEL_0") if classes else {})})
    write_tokenizer(folder, {"config": template, "list": [{"name": "other", "template": CHAT},
                                                          {"name": "default", "template": template}]}.get(place))
    if place == "file":
        with open(os.path.join(folder, "chat_template.jinja"), "w", encoding="utf-8") as file:
            file.write(template)
    shapes = tensors("model.", ("input_layernorm", "post_attention_layernorm"))
    if classes:
        shapes["score.weight"] = [1, HIDDEN]
    elif not tied:
        shapes["lm_head.weight"] = [SHAPE["vocab_size"], HIDDEN]
    write_weights(os.path.join(folder, "model.safetensors"), shapes, kind)
    if score:
        write_chain(folder, ("", "base.modules.transformer.Transformer"),
                    ("1_LogitScore", "cross_encoder.modules.logit_score.LogitScore"))
        write_json(os.path.join(folder, "1_LogitScore"), "config.json", {
            "true_token_id": known.index(score[0]), "false_token_id": known.index(score[1]) if score[1] else None})
    if score or classes:
        how = {"method": "forward", "method_output_name": "logits"}
        write_json(folder, "sentence_bert_config.json", {
            "transformer_task": "sequence-classification" if classes else "text-generation",
            "modality_config": {"text": how, "message": {**how, "format": "flat"}},
            "module_output_name": "scores" if classes else "causal_logits"})
    if score:
        named = {"boats": "Is there a boat on the river"} if kind == "ask-untied" else {}
        write_json(folder, "config_sentence_transformers.json", {
            "prompts": named, "default_prompt_name": next(iter(named), None), "model_type": "CrossEncoder"})


def write_gemma(folder):
    """Norms multiply by 1 + w."""
    write_json(folder, "config.json", {
        **SHAPE, "model_type": "gemma3_text", "architectures": ["Gemma3TextModel"], "use_bidirectional_attention": True,
        "num_key_value_heads": 1, "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": HEAD, "sliding_window": 8,
        "layer_types": ["sliding_attention", "full_attention"], "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 1000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 50.0}}})
    write_tokenizer(folder)
    norms = ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm")
    write_weights(os.path.join(folder, "model.safetensors"), tensors("", norms, 1), "gemma-dense", 0.0)
    write_chain(folder, ("", "models.Transformer"), ("1_Pooling", "models.Pooling"), ("2_Dense", "models.Dense"),
                ("3_Dense", "models.Dense"), ("4_Normalize", "models.Normalize"))
    write_json(os.path.join(folder, "1_Pooling"), "config.json", {
        "word_embedding_dimension": HIDDEN, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True,
        "include_prompt": True})
    for path, into, out in (("2_Dense", HIDDEN, 4 * HIDDEN), ("3_Dense", 4 * HIDDEN, HIDDEN)):
        write_json(os.path.join(folder, path), "config.json", {
            "in_features": into, "out_features": out, "bias": False, "activation_function": "torch.nn.modules.linear.Identity"})
        write_weights(os.path.join(folder, path, "model.safetensors"), {"linear.weight": [out, into]}, path)
    os.makedirs(os.path.join(folder, "4_Normalize"), exist_ok=True)
    write_json(folder, "sentence_bert_config.json", {"max_seq_length": POSITIONS, "do_lower_case": False})
    write_json(folder, "config_sentence_transformers.json", {
        "prompts": {"query": "task: search result | query: ", "document": "title: none | text: "},
        "default_prompt_name": None, "similarity_fn_name": "cosine"})


def write_model(kind, folder):
    if kind == "gemma-dense":
        write_gemma(folder)
    else:
        write_question(kind, folder)


if __name__ == "__main__":
    write_model(sys.argv[1], sys.argv[2])
