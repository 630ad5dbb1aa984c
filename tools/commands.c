/* The commands, one table. */
#include "commands.h"

#include <string.h>

const struct command commands[] = {
    {"devices", DEVICES, "", "list the devices that can run a model",
     "Lists every device of every driver, in the order in which ids are given: Vulkan,\n"
     "OpenCL, then the reference, which runs on the CPU without any driver. A device\n"
     "that can't be used is listed with the reason.\n",
     "  wherry devices\n"
     "  wherry devices --json\n",
     devices_command},
    {"models", MODELS, "FOLDER...", "tell what model folders are, and whether they run",
     "Opens each folder as the other commands do, and reads no weights: its architecture,\n"
     "layers, parameters, longest text in tokens, pooling, tokenizer, head, and the memory\n"
     "that a session takes on the device in f32 and in f16 (of --device where it is given,\n"
     "as planned; else as on a device that runs all groups). A folder that does not run\n"
     "is named with the reason and what to do; the exit code is 3 then.\n",
     "  wherry models all-MiniLM-L6-v2 bge-m3\n"
     "  wherry models --json ~/models/*\n",
     models_command},
    {"embed", EMBED, "[FILE...]", "turn texts into embeddings",
     "Reads texts from files, one after the other, or from standard input without any or\n"
     "with \"-\", and writes one embedding for each, in the same order. With --input lines\n"
     "each line is a text; a CR before the line's end does not belong to it, and an empty\n"
     "line is an empty text, embedded as its special tokens alone. With --input jsonl each\n"
     "line is an object with \"text\", optionally \"pair\" (the second text) and \"id\" (copied\n"
     "to JSONL output as it is written); blank lines are skipped. Invalid UTF-8 is replaced\n"
     "by U+FFFD, UTF-16 is refused. Input without any text is an error.\n"
     "\n"
     "A text longer than the limit is an error that names its line, unless --truncate is\n"
     "given. An embedding does not depend on the other texts of a batch. Memory does not\n"
     "grow with the input. A file named by --output is replaced only when everything has\n"
     "been written; on any error it stays as it was.\n"
     "\n"
     "Formats: text has a line of numbers for each text, separated by spaces, each as\n"
     "short as it can be to read back as the same float; jsonl an object for each text\n"
     "with \"index\" (from 0), \"id\" and \"text\" where asked for, \"tokens\" and \"embedding\"\n"
     "(with --pool none an array for each token); npy a NumPy array, float32, [texts, size],\n"
     "whose rows wait in a temporary file in TMPDIR where the output is a pipe.\n"
     "\n"
     "Below mpirun processes share the work, a device each, and write the same bytes: parts\n"
     "of the input are handed out as processes have time, and their results are kept in\n"
     "OUTPUT.parts until all are done, so that after an interruption the same command goes\n"
     "on. The output and the files have to be where all processes reach them.\n",
     "  echo 'A boat carries people.' | wherry embed --model all-MiniLM-L6-v2\n"
     "  wherry embed -m all-MiniLM-L6-v2 --format npy -o texts.npy texts.txt\n"
     "  wherry embed -m bge-base --device vulkan:0 --dtype f32 --json <questions.txt\n"
     "  mpirun -n 8 --bind-to none wherry embed -m bge-m3 -o all.txt texts/*.txt\n",
     embed_command},
    {"rerank", RERANK, "[FILE]", "sort texts by how well they answer a query",
     "Gives each text of FILE, or of standard input, and the query to a reranker (a cross-\n"
     "encoder: a model that makes one score of a pair), the query first, and writes the\n"
     "texts, best first. Input is as for wherry embed. All texts are kept in memory.\n"
     "\n"
     "Formats: text has a line for each text with its score, its line in the input and the\n"
     "text, with tabs between them; jsonl an object with \"index\" (from 0), \"id\", \"text\"\n"
     "where asked for, and \"score\". Scores are what the model's files make of its logits:\n"
     "sigmoid, softmax or nothing.\n",
     "  wherry rerank --model ms-marco-MiniLM-L6-v2 --query 'who rows a boat?' texts.txt\n"
     "  wherry rerank -m bge-reranker -Q 'who rows?' --top 3 --json --with-text <texts.txt\n",
     rerank_command},
    {"classify", CLASSIFY, "[FILE]", "give texts, pairs or what stands in them labels",
     "Writes for each text of FILE, or of standard input, its label and the label's score;\n"
     "with --top N the N best. Input is as for wherry embed; --pairs gives the model two\n"
     "texts a line. Scores are what the model's files make of its logits: softmax over the\n"
     "labels, or sigmoid of each.\n"
     "\n"
     "With --tokens, for models that classify tokens: entities, joined of tokens as\n"
     "transformers' pipeline does. simple joins tokens of one kind that follow each other;\n"
     "first, average and max give all tokens of a word the label of its first one, of the\n"
     "mean of their scores, or of the surest one before that.\n"
     "\n"
     "Formats: text has a line for each text, labels and scores with tabs between them; with\n"
     "--tokens a line for each entity: the text's line, where it begins and ends in\n"
     "characters from 0, label, score, and its text. jsonl has an object for each text\n"
     "with \"labels\" or \"entities\".\n",
     "  wherry classify --model sentiment texts.txt\n"
     "  wherry classify -m nli --pairs --json pairs.tsv\n"
     "  echo 'Ada rows in Bremen.' | wherry classify -m ner --tokens --aggregation first\n",
     classify_command},
    {"fill", FILL, "[FILE]", "say what stands in the place of a mask",
     "Writes for each mask ([MASK] or <mask>, as the model's tokenizer has it) in each text of\n"
     "FILE, or of standard input, the most likely tokens and how likely each is. The model\n"
     "must have its masked-token head. A text with several masks is read once for each.\n"
     "\n"
     "Formats: text has a line for each mask: the text's line, then tokens and their\n"
     "likelihood with tabs between them; jsonl an object for each text, whose \"masks\" has an\n"
     "array for each mask.\n",
     "  echo 'The [MASK] rows a boat.' | wherry fill --model bert-base-uncased\n"
     "  wherry fill -m roberta-base --top 3 --json texts.txt\n",
     fill_command},
    {"train", TRAIN, "[FILE...]", "train a model on examples",
     "Trains all weights of a model on the examples of --data, and writes the trained model to\n"
     "--out, a folder that the other commands, transformers and sentence-transformers open.\n"
     "\n"
     "Data is JSONL, an object a line, or plain lines with tabs between columns, the label\n"
     "last. contrastive: an anchor, its positive and perhaps negatives, in fields of any name,\n"
     "in this order. scored: two texts and \"score\". classify: \"text\" (or two texts) and\n"
     "\"label\", a number or a name of the model's; --loss binary takes \"labels\", any number\n"
     "of them. regress: \"text\" and \"score\". tokens: \"tokens\", words, and \"labels\", one for\n"
     "each. mlm: \"text\", or the line. Label -100 does not count. Files may be larger than\n"
     "memory. With --epochs all lines are read before the first step, so that a wrong one\n"
     "is found then.\n"
     "\n"
     "The examples' order is drawn for each epoch. No text is in a contrastive batch twice:\n"
     "its examples wait for the next one. Before the first step the device's gradients are\n"
     "compared with the reference's.\n"
     "\n"
     "--lora RANK trains low-rank adapters instead, of the layers that --lora-targets names;\n"
     "--out is a folder that PEFT and --adapter read then, or with --lora-merge the model.\n"
     "\n"
     "Evaluation on --dev tells the loss, and recall@1 and @10 (contrastive: of the anchor's\n"
     "positive among all), Spearman's correlation (scored, regress) or accuracy.\n"
     "\n"
     "A run that was stopped, by Ctrl-C or a crash, goes on from its last checkpoint when\n"
     "the same command is given again, and ends with the same bits as one that was not.\n",
     "  wherry train --model all-MiniLM-L6-v2 --task contrastive --data pairs.jsonl \\\n"
     "      --dev held-out.jsonl --out my-model\n"
     "  wherry train -m bert-base-uncased --task mlm --data *.txt --truncate --batch-tokens \\\n"
     "      16384 --steps 10000 --lr 1e-4 --log log.jsonl -o adapted\n"
     "  wherry train -m sentiment --task classify --data a.jsonl b.jsonl --epochs 3 -o mine\n"
     "  wherry train -m all-MiniLM-L6-v2 --task contrastive --data pairs.jsonl --lora 16 \\\n"
     "      --lr 2e-4 --out my-adapter\n",
     train_command},
    {"merge", MERGE, "", "merge an adapter into its model",
     "Adds a low-rank adapter, of wherry train --lora or PEFT, to the weights of its model,\n"
     "and writes the model to --out, a folder that every command, transformers and\n"
     "sentence-transformers open.\n",
     "  wherry merge --model all-MiniLM-L6-v2 --adapter my-adapter --out my-model\n", merge_command},
    {"serve", SERVE, "", "answer requests over HTTP",
     "Starts wherry-serve, a program of its own, which lies beside this one or in PATH:\n"
     "the routes of text-embeddings-inference, OpenAI's /v1/embeddings, Cohere's and\n"
     "Jina's /v1/rerank. Its options are listed by wherry serve --help; docs/serving.md\n"
     "is its guide.\n",
     "  wherry serve --model all-MiniLM-L6-v2 --port 8080\n"
     "  wherry serve -m bge-m3 -m rank=bge-reranker-base --socket /run/wherry.sock\n",
     NULL},
    {"analyze", ANALYZE, "", "count flop and bytes of operators and fusion groups",
     "Needs no device. Prints the operators (with their row in the table of Ivanov et al.,\n"
     "\"Data Movement Is All You Need\"), the groups that a plan fuses them into, and the\n"
     "bytes and kernel launches of each plan against the unfused one. Class T is a tensor\n"
     "contraction, S a statistical normalization, E element-wise. Gflop are 10^9; the\n"
     "column \"2^30\" is the same in units of 2^30, rounded as the paper prints it. Bytes\n"
     "count each distinct tensor once per kernel, in units of 10^6. A launch is a group;\n"
     "one that sums over all tokens has a second, small kernel.\n"
     "\n"
     "With --config the default is one layer in training, as in the paper (dropouts there,\n"
     "ReLU); with --model it is the whole encoder in inference. Layers are equal: the table\n"
     "shows the first and how many there are, unless --all is given.\n"
     "\n"
     "What if: --fuse lin2_dropout+lin2_residual makes the groups one in which these\n"
     "operators (or groups of the plan) are, --split takes a group apart. Both start from\n"
     "--plan and tell launches and bytes before and after, and whether the paper's rule on\n"
     "iteration spaces allows it. A name stands for every layer, layer.N.NAME for one.\n"
     "--fuse auto derives groups by that rule from the operators alone; --explain prints\n"
     "each decision. An iteration space is written bj/i: for each b and j, a reduction\n"
     "over i.\n"
     "\n"
     "--layouts counts instead: in how many orders of their letters the tensors of each\n"
     "contraction and of each fused kernel can lie, how many of these are one GEMM, how\n"
     "many fit batches of different lengths. docs/layouts.md says what is counted.\n"
     "\n"
     "--train counts a whole training step, and the memory that it takes: weights, the\n"
     "optimizer's state, gradients, what is kept for the backward pass, what else lives at a\n"
     "time. Bytes a parameter and a token are what other batches are told by.\n"
     "With --ranks 8,64 --link 25GB/s,5us --measured FILE it predicts steps of so many\n"
     "processes from the record of one: gradients go in buckets as the backward pass makes\n"
     "them; what takes longer than that is exposed.\n"
     "\n"
     "--device-spec h100 predicts: from these counts and the device's peaks, the ridge\n"
     "point, and for each operator and group its intensity, whether memory, arithmetic or\n"
     "the launch limits it, and the least time it can take; what each fusion, plan and\n"
     "decision of --fuse saves by that. Instead of a name, a JSON file: {\"bandwidth\":\n"
     "3.35e12, \"matrix_flops\": 990e12, \"f32_flops\": 67e12}, per second, and if known\n"
     "\"cache_bytes\", \"cache_bandwidth\", \"launch_seconds\", \"name\", \"source\"; or what\n"
     "wherry roof --json wrote, whose measured ceilings are the peaks (FILE#N: device N).\n",
     "  wherry analyze --config bert-large --batch 8 --seq 512\n"
     "  wherry analyze --config bert-large --train --batch 32 --device-spec h200\n"
     "  wherry analyze --config bert-large --train --ranks 8,1024 --link 25GB/s,5us \\\n"
     "    --wire f16 --copy 55GB/s --measured step.json\n"
     "  wherry analyze --paper\n"
     "  wherry analyze --layouts\n"
     "  wherry analyze --config bert-base --layouts --plan paper\n"
     "  wherry analyze --config bert-large --fuse auto --explain\n"
     "  wherry analyze --config bert-large --plan paper --fuse bsb+blnrd2\n"
     "  wherry analyze --config bert-large --device-spec h100\n"
     "  wherry analyze --config bert-large --device-spec v100,a100,h100,h200\n"
     "  wherry analyze --model all-MiniLM-L6-v2 --plan all --json\n"
     "  wherry analyze --config bert-base --dot | dot -Tsvg >layer.svg\n",
     analyze_command},
    {"roof", ROOF, "", "measure what a device can do",
     "Measures the ceilings that kernels are compared with, through the same API as\n"
     "everything else: reading, writing, copying and triad (a = b + c/2) of memory far\n"
     "beyond the caches, in several widths and work-group sizes; copies of growing\n"
     "working sets, where the last cache ends and what it gives; fused multiply-add in\n"
     "f32, in f16 and on matrix units where there are any; what launching costs: a and b\n"
     "of T = a + V/b over copies of V bytes, the gap between dependent kernels, the host's\n"
     "time for a run of one. Read and written bytes are both counted. What was moved or\n"
     "computed is checked before a rate counts. Configurations take turns, so that drift\n"
     "hits all alike. First the device's timer is tested against the host's clock; where\n"
     "it lies, times are the host's.\n",
     "  wherry roof\n"
     "  wherry roof --device opencl:0 --json -o roof.json\n"
     "  wherry roof --only dram,compute --peak-bandwidth 4800\n",
     roof_command},
    {"bench", BENCH, "", "measure the time of each kernel, against what the device can do",
     "Measures the device's ceilings, encodes a batch of random token ids again and again,\n"
     "and sets every group's time, bytes and flop against them: the share of its roof, MUE\n"
     "(memory use efficiency: the bytes that it has to move over those that could have been\n"
     "moved in its time), and what limits it. Groups that repeat are added up in tables. MB\n"
     "and GB/s are of the bytes that the kernels are written to move, a tile that is read\n"
     "again counts again. \"!\" marks what is above a ceiling that was measured again.\n"
     "\n"
     "The result is a record (schema rl-1), from which all formats are made; see wherry\n"
     "report. A file named .html, .csv, .md, .trace.json or .json gets that format.\n",
     "  wherry bench --model all-MiniLM-L6-v2 --batch 64 --seq 128\n"
     "  wherry bench --config bert-base --device vulkan:0 --dtype f16 -o page.html\n"
     "  wherry bench --config minilm-l6 --lengths 5,17,128 --wide\n",
     bench_command},
    {"bench --latency", LATENCY, "", "measure how long single requests take under load",
     "Sends requests from 1, 4 and 16 threads (--clients), each the next one when its last\n"
     "was answered. A request is what an application waits for: a text is tokenized,\n"
     "encoded alone, and its vector read back. Prints percentiles of these times, requests\n"
     "per second, and what the first request takes after 10 seconds without any, when\n"
     "clocks are idle. A model of --config has no tokenizer: its requests are token ids.\n"
     "\n"
     "A session is one thread's at a time. Either all clients share one, which they get in\n"
     "the order in which they came, so that the time of a request is its own and that of\n"
     "those before it; or each has its own, with the model's weights in memory as often\n"
     "(--sessions per-client). It has room for one text of the longest of --lengths.\n"
     "\n"
     "Times are counted in buckets: percentiles are right to 0.4 %, min and max exact. One\n"
     "for which there are too few requests is not told. docs/measuring.md says what loads\n"
     "of this kind show, and what not. The result is a record, as that of wherry bench.\n",
     "  wherry bench --latency --model all-MiniLM-L6-v2\n"
     "  wherry bench --latency -m all-MiniLM-L6-v2 -d opencl:0 --lengths 5,20,250 --json\n"
     "  wherry bench --latency -m bge-base --clients 8 --sessions per-client --seconds 60\n",
     bench_latency_command},
    {"bench layer", BENCH_LAYER, "", "measure the training of encoder layers",
     "Runs the forward and the backward pass of a stack of layers, without embeddings, on\n"
     "random inputs and gradients that are on the device already: the median time of each\n"
     "pass and of both as the host sees it, and by device timestamps the time of every\n"
     "group, as in the step (warm caches) and alone with buffers taken in turn (cold). The\n"
     "rest is as for wherry bench. No weights are updated.\n",
     "  wherry bench layer --config bert-large --batch 8 --seq 512 --plan all\n"
     "  wherry bench layer --config bert-base --layers 12 --save least --json\n"
     "  wherry bench layer --config bert-large --phase backward --lengths 512,128,31\n",
     bench_layer_command},
    {"bench train", BENCH_TRAIN, "", "measure the training of whole models",
     "Makes training steps of a model with random weights (--config) on a batch of random\n"
     "token ids: embeddings, all layers, head, loss, backward pass, clipping and the change\n"
     "of the weights, as wherry train does. Prints the median time of a step as its caller\n"
     "waits for it, tokens per second, the device's memory by what it is for, and by device\n"
     "timestamps the time of each part and of every group, the optimizer's kernels among\n"
     "them. The rest is as for wherry bench. --task chooses the loss: mlm predicts 15 % of the\n"
     "tokens, contrastive takes two texts as a pair. Below mpirun processes train together,\n"
     "each with the batch on a device of its own: the time of their steps, the bytes that one\n"
     "sends, and the share of the exchange that is hidden; no times of parts.\n",
     "  wherry bench train --config bert-large --batch 32 --seq 512\n"
     "  mpirun -n 2 wherry bench train --config bert-large --wire f16 --device opencl\n"
     "  wherry bench train --config bert-base --task classify --plan all --json\n"
     "  wherry bench train --config minilm-l6 --task contrastive --optimizer lamb\n",
     bench_train_command},
    {"bench gemm", BENCH_GEMM, "MxNxK...", "measure single matrix products",
     "Times the products of a linear layer of these sizes as the plans have them: forward,\n"
     "[M,K] times [N,K] transposed; dx, the gradient of its input, [M,N] times [N,K]; dw,\n"
     "that of its weights, [M,N] transposed times [M,K]; and epilogue, the forward product\n"
     "with bias, GELU and dropout in the same kernel, which keeps what training needs.\n"
     "Each is run alone, again and again over the same buffers with random values, and\n"
     "timed by the device: how other libraries time theirs. Tflop/s count everything that\n"
     "the group computes, TB/s each tensor once.\n",
     "  wherry bench gemm 8192x8192x8192 4096x1024x1024\n"
     "  wherry bench gemm --device vulkan:0 --only forward,dw 16384x768x3072 --json\n",
     bench_gemm_command},
    {"bench attention", BENCH_ATTENTION, "BxHxLxD...", "measure attention alone",
     "Times attention of B sequences of L tokens with H heads of D channels: forward as in\n"
     "inference, forward_dropout as in training, and backward, with everything between the\n"
     "gradient of its output and those of Q, K and V. Also says what memory a session with\n"
     "one such layer takes. Times are as for wherry bench gemm.\n",
     "  wherry bench attention 32x16x512x64\n"
     "  wherry bench attention --only forward 256x16x128x64 2x16x16384x64\n",
     bench_attention_command},
    {"bench norm", BENCH_NORM, "RxN...", "measure layernorm and what is fused with it",
     "Times kernels over R rows of N values: forward, layernorm; backward, its gradient with\n"
     "those of its parameters and of a bias; bdrln, bias, dropout, residual and layernorm in\n"
     "one, which also keeps their sum; brln, the same without dropout. Times are as for wherry\n"
     "bench gemm.\n",
     "  wherry bench norm 65536x1024\n", bench_norm_command},
    {"bench layouts", BENCH_LAYOUTS, "", "measure what the orders of tensors are worth on a device",
     "Times the twelve fused kernels and 24 contractions of Ivanov et al. with their tensors in\n"
     "other orders of letters, vectors and threads along other letters: with kernels for that\n"
     "alone, which no session runs, at the sizes of --config. Each is compiled by itself,\n"
     "checked against a reference in double precision, and timed right after itself (warm).\n"
     "Beside them what the plan \"paper\" takes for the same, and what the paper published.\n"
     "\n"
     "The whole space has three million configurations. --sample N draws N of each from equal\n"
     "parts of it, the model's orders among them, and goes from the best and the worst found\n"
     "to better and worse ones that differ in one choice; --seconds ends it. What was measured\n"
     "is kept in a log, from which a run that was stopped goes on.\n"
     "\n"
     "docs/layouts.md says what the kernels are and what they are not.\n",
     "  wherry bench layouts --device opencl:0 --sample 200 -o layouts.json\n"
     "  wherry bench layouts --only SM,AIB,qkt --batch 2 --seq 128 --sample 20\n"
     "  wherry report layouts.json -o layouts.html\n",
     bench_layouts_command},
    {"tune", TUNE, "", "measure which kernel sizes and orders of tensors are fastest",
     "Takes each distinct kernel call of the plan for such batches, lists the sizes that\n"
     "the kernel could have (tiles, parts, work-groups; at most 40 that the device can run\n"
     "and that a bound of bytes and flop does not rule out), compares each one's numbers\n"
     "with those of the usual sizes, and times it in turns with them. One that is better\n"
     "at 95 % confidence, by at least 1 %, is measured a second time, and then chosen.\n"
     "\n"
     "Then the orders of all tensors in memory (see --layouts) are chosen together: every\n"
     "group is timed in the step with each, its results compared with those of the model's\n"
     "orders, and the combination with the least sum taken, as a shortest path. It is kept\n"
     "where a run with it is faster at 95 % confidence. --layouts names orders instead, and\n"
     "--no-layouts leaves them alone.\n"
     "\n"
     "What was chosen is kept in the cache folder, under the device, its driver and the\n"
     "kernels' sources; every command and every session uses it from then on, for batches\n"
     "whose largest counts up to the same power of two. wherry bench names it. A tuning\n"
     "that was stopped goes on where it was.\n",
     "  wherry tune --model all-MiniLM-L6-v2 --batch 64 --seq 128\n"
     "  wherry tune --config bert-base --device vulkan:0 --batch 32 --seq 512 --json\n",
     tune_command},
    {"tune layer", TUNE_LAYER, "", "the same for the training of encoder layers",
     "As wherry tune, for the forward and the backward pass of a stack of layers.\n",
     "  wherry tune layer --config bert-large --batch 8 --seq 512\n"
     "  wherry tune layer --config bert-large --batch 96 --seq 128 --device opencl:0\n",
     tune_layer_command},
    {"prepare", PREPARE, "", "compile a model's kernels, and tell what they take",
     "Compiles what sessions of this model and of batches up to --batch sequences of --seq\n"
     "tokens (or --lengths) run, so that the cache folder has it when they start, and\n"
     "prints for each kernel what it takes of a multiprocessor, as far as the driver says:\n"
     "registers, bytes that spill out of them, shared memory, how many sub-groups (waves)\n"
     "are resident at a time, bytes of code.\n"
     "\n"
     "With --dump nothing is compiled: every distinct program is written to a folder as\n"
     "the driver would be given it, for offline compilers. Together with --target the\n"
     "device need not be here.\n",
     "  wherry prepare --model all-MiniLM-L6-v2\n"
     "  wherry prepare --config bert-large --train --device vulkan:0 --json\n"
     "  wherry prepare --config bert-base --plan all --dtype all --target intel-bmg --dump bmg\n",
     prepare_command},
    {"compile", COMPILE, "FILE", "compile what another process lists",
     "What the other commands start, and programs whose wherry_context_desc.compiler names\n"
     "this one: compiles the kernels that FILE lists, which such a program wrote to its\n"
     "cache folder, into that folder, and writes a line for each. A driver's compiler that\n"
     "crashes ends this process alone; the next is started for the rest.\n",
     "  wherry compile ~/.cache/wherry/apart-1-2.txt\n", compile_command},
    {"report", REPORT, "FILE|FOLDER...", "write or check stored records",
     "Reads records (wherry bench, wherry bench layer, wherry roof with --json) and writes\n"
     "them, several as one, in any format: tables on a terminal, Markdown, CSV with a line\n"
     "for each operation, a Chrome trace for Perfetto, or one HTML page that needs nothing\n"
     "else. \"-\" is standard input. Beside a record of the device cpu it says how many times\n"
     "as fast others with the same workload are.\n"
     "\n"
     "A folder stands for the records in it (scripts/gpu.sh --quick leaves one); several are\n"
     "merged, duplicates left out, and their devices ranked for each workload: by time, per\n"
     "bandwidth, by their share of the roof, per joule where power was noted, beside what their\n"
     "ceilings alone predict, for devices that did not run it, too.\n"
     "\n"
     "What compilers make of kernels (data/compilers.json) becomes text, Markdown or a page:\n"
     "each kernel's occupancy on each device, and what spills.\n"
     "\n"
     "Logs of wherry train (--log, *.jsonl) become curves of the loss, the learning rate and\n"
     "the speed, several in one picture by the files' names: a page, alone or with records,\n"
     "an .svg, tables.\n"
     "\n"
     "Tunings (wherry tune, wherry tune layer with --json) become a table, Markdown, CSV or a\n"
     "page, too: how the times of all configurations are distributed, what was chosen, what\n"
     "that is worth. Records and tunings are not written together.\n"
     "\n"
     "With --check every derived number is derived again from the raw ones and compared:\n"
     "rates, shares, sums, regimes, and whether everything above its ceiling is flagged.\n"
     "Each that differs is printed; exits with 1 when there are any.\n",
     "  wherry report h200-vulkan.json h200-opencl.json -o page.html\n"
     "  wherry report layer.json --format markdown\n"
     "  wherry report tuned.jsonl pytorch.jsonl -o curves.html\n"
     "  wherry report tuning.json -o tuning.html\n"
     "  wherry report bench/results/nvidia-h200 build/quick -o devices.html\n"
     "  wherry report --check bench/results/*/*.json\n",
     report_command},
    {"diff", DIFF, "FILE FILE", "compare two records of the same work",
     "Compares the times of every operation, matched by plan and name, and of the whole\n"
     "step: the ratio of medians with its 95 % interval, most time lost first. A change\n"
     "counts when the intervals of the two times do not touch and it is larger than the\n"
     "threshold; tables have only those, unless --all is given. Exits with 1 when anything\n"
     "became slower. Says where devices or workloads differ.\n",
     "  wherry diff before.json after.json\n"
     "  wherry diff --threshold 10 --all before.json after.json\n",
     diff_command},
    {"verify", VERIFY, "", "check that a device computes a model correctly",
     "Runs every group of the plan on the device, compares it with a reference in double\n"
     "precision on the same inputs, looks for writes outside the outputs, then replays the\n"
     "whole step and compares bits. Prints the groups that fail and a summary; exits with 1\n"
     "when anything differs.\n",
     "  wherry verify --model all-MiniLM-L6-v2\n"
     "  wherry verify --config bert-base --device opencl:0 --plan all --dtype all\n",
     verify_command},
    {"verify layer", VERIFY_LAYER, "", "check that a device trains encoder layers correctly",
     "As wherry verify, for the forward and the backward pass of a stack of layers: every\n"
     "group on random inputs and gradients against the reference in double precision,\n"
     "dropout included, then replays.\n",
     "  wherry verify layer --config bert-base --device vulkan:0 --plan all --dtype all\n"
     "  wherry verify layer --config bert-large --lengths 65,30 --save least\n",
     verify_layer_command},
    {"quality", QUALITY, "[FILE...]", "measure what a storage type costs",
     "Embeds texts, of FILE or without one 200 sentences that come with the program, in f32\n"
     "and as --dtype and --weights say, and compares both: the cosine of a text's two\n"
     "embeddings, the mean and the least; Spearman's rank correlation of the similarities\n"
     "of all pairs of texts; and how many of a text's ten nearest others are the same. Of\n"
     "more than 2,048 texts so many are compared with one another, evenly chosen.\n",
     "  wherry quality --model all-MiniLM-L6-v2 --dtype f16\n"
     "  wherry quality -m bge-base --weights int8 --json questions.txt\n",
     quality_command},
    {"demo", DEMO, "FILE", "show a model at work on sentences",
     "Embeds the sentences of FILE, one a line, and shows the devices found, which one is\n"
     "used, nearest sentences with their cosine similarity, tokens per second, and where\n"
     "time and bytes go.\n",
     "  wherry demo --model all-MiniLM-L6-v2 sentences.txt\n", demo_command},
};
const size_t commands_count = sizeof commands / sizeof *commands;

/* Whether the words have this option, before those that are no options. */
static bool has_option(int argc, char **argv, const char *option)
{
    for (int n = 0; n < argc && strcmp(argv[n], "--") != 0; n++)
        if (strcmp(argv[n], option) == 0) return true;
    return false;
}

/* How many of the words are the command's name, 0: they are no such command. */
static int words_of(const struct command *command, int argc, char **argv)
{
    size_t first = strcspn(command->name, " ");
    const char *second = command->name + first + (command->name[first] == ' ');
    if (strlen(argv[0]) != first || strncmp(argv[0], command->name, first) != 0) return 0;
    if (*second == '-') return has_option(argc - 1, argv + 1, second);
    if (!*second) return 1;
    return argc > 1 && strcmp(argv[1], second) == 0 ? 2 : 0;
}

const struct command *command_find(int argc, char **argv, int *words)
{
    const struct command *found = NULL;
    for (size_t n = 0; n < commands_count; n++) {
        int count = words_of(&commands[n], argc, argv);
        bool better =
            found ? count > *words || (count == *words && strlen(commands[n].name) > strlen(found->name)) : count > 0;
        if (!better) continue;
        found = &commands[n];
        *words = count;
    }
    return found;
}
