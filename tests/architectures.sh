#!/bin/sh
# An architecture's name stands in its table, in a tokenizer's where that has one, in examples of the help, and nowhere
# else. The first operand is the repository's root.
cd "$1" || exit 1
if grep -rniE '"[^"]*(roberta|electra|distilbert|mpnet|camembert)' core backends tools --include='*.[ch]' |
    grep -vE '^(core/(model/architectures|tokenizer)/|tools/commands\.c:)'; then
    echo 'these know the name of an architecture: what they need of it belongs into its table (core/model/architecture.h)'
    exit 1
fi
# Tokenizers have classes; which class a model_type has says the table.
if grep -rnE '"(roberta|xlm-roberta|camembert|electra|distilbert|mpnet|bert|model_type)"' core/tokenizer --include='*.[ch]'; then
    echo "a tokenizer asks for the architecture: its class comes from the architecture's table"
    exit 1
fi
