/* The public API from end to end: embeds the arguments as one batch and prints how similar each is to the first.
 *
 *   embed MODEL_FOLDER TEXT TEXT... */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <wherry/wherry.h>

enum { MAX_TOKENS = 512 }; /* of one text */

struct state {
    wherry_context *context;
    wherry_device *device;
    wherry_model *model;
    wherry_session *session;
    uint32_t *offsets; /* [sequences + 1] */
    int32_t *ids;      /* [tokens] */
    float *embeddings; /* [sequences][size] */
};

static wherry_status embed(struct state *s, const char *folder, char **texts, uint32_t sequences, size_t *size)
{
    wherry_status status = wherry_context_create(NULL, &s->context);
    if (status) return status;
    if ((status = wherry_device_open(s->context, NULL, &s->device))) return status; /* the best there is */
    if ((status = wherry_model_open(s->context, folder, &s->model))) return status;

    /* Sequences are packed back to back, without padding. */
    s->offsets = calloc((size_t)sequences + 1, sizeof *s->offsets);
    s->ids = calloc(sequences, MAX_TOKENS * sizeof *s->ids);
    if (!s->offsets || !s->ids) return WHERRY_STATUS_OUT_OF_HOST_MEMORY;
    for (uint32_t n = 0; n < sequences; n++) {
        size_t count = MAX_TOKENS;
        status = wherry_tokenize(s->context, s->model, texts[n], strlen(texts[n]), NULL, 0, MAX_TOKENS,
                                 s->ids + s->offsets[n], NULL, &count);
        if (status) return status;
        s->offsets[n + 1] = s->offsets[n] + (uint32_t)count;
    }

    const wherry_session_desc desc = {
        .struct_size = sizeof desc, .max_tokens = s->offsets[sequences], .max_sequences = sequences};
    if ((status = wherry_session_create(s->context, s->device, s->model, &desc, &s->session))) return status;
    wherry_session_plan plan = {.struct_size = sizeof plan};
    if ((status = wherry_session_query(s->session, &plan))) return status;
    *size = plan.embedding_size;
    s->embeddings = calloc(sequences, *size * sizeof *s->embeddings);
    if (!s->embeddings) return WHERRY_STATUS_OUT_OF_HOST_MEMORY;

    const wherry_batch batch = {
        .struct_size = sizeof batch, .sequences = sequences, .offsets = s->offsets, .ids = s->ids};
    return wherry_encode(s->session, &batch, s->embeddings, sequences * *size);
}

static double cosine(const float *a, const float *b, size_t size)
{
    double ab = 0, aa = 0, bb = 0;
    for (size_t n = 0; n < size; n++) {
        ab += (double)a[n] * b[n];
        aa += (double)a[n] * a[n];
        bb += (double)b[n] * b[n];
    }
    return ab / sqrt(aa * bb);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: embed MODEL_FOLDER TEXT TEXT...\n");
        return 2;
    }
    struct state s = {0};
    size_t size = 0;
    wherry_status status = embed(&s, argv[1], argv + 2, (uint32_t)argc - 2, &size);
    if (status)
        fprintf(stderr, "embed: %s: %s\n", wherry_status_name(status), s.context ? wherry_last_error(s.context) : "");
    for (int n = 0; !status && n < argc - 2; n++)
        printf("%6.3f  %s\n", cosine(s.embeddings, s.embeddings + (size_t)n * size, size), argv[n + 2]);

    free(s.embeddings);
    free(s.ids);
    free(s.offsets);
    wherry_session_destroy(s.session);
    wherry_model_close(s.model);
    wherry_device_close(s.device);
    wherry_context_destroy(s.context);
    return status ? 1 : 0;
}
