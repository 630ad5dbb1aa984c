#!/bin/sh
# An architecture's name stands in its table, and in a tokenizer's where that has one, and nowhere else. The first operand
# is the repository's root.
cd "$1" || exit 1
if grep -rniE '"[^"]*(roberta|electra|distilbert|mpnet|camembert)' core backends tools --include='*.[ch]' |
    grep -vE '^core/(model/architectures|tokenizer)/'; then
    echo 'these know the name of an architecture: what they need of it belongs into its table (core/model/architecture.h)'
    exit 1
fi
