#!/usr/bin/env bash
# clients.sh [FOLDER]
# The real clients against wherry-serve with all-MiniLM-L6-v2: openai, cohere, huggingface-hub, langchain-openai,
# llama-index's of text-embeddings-inference; their vectors are compared with sentence-transformers'
# (tests/golden/minilm.npy). Makes a virtual environment in FOLDER (default: build/serve-clients) with pip, where it is not
# there yet.
#   BUILD  folder of the build (default: build/release)
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=${1:-$root/build/serve-clients} build=${BUILD:-$root/build/release}
if [ ! -f "$folder/ready" ]; then
    python3 -m venv "$folder"
    "$folder/bin/pip" install -q openai cohere huggingface-hub langchain-openai \
        llama-index-embeddings-text-embeddings-inference numpy
    touch "$folder/ready"
fi
reranker=$folder/reranker
[ -f "$reranker/config.json" ] || python3 "$root/tests/golden/heads_models.py" bert-rerank "$reranker"
classifier=$folder/classifier
[ -f "$classifier/config.json" ] || python3 "$root/tests/golden/heads_models.py" bert-classify "$classifier"
"$folder/bin/python" "$root/tests/serve/clients.py" "$build/wherry-serve" "$("$root/scripts/model.sh")" "$reranker" "$classifier"
