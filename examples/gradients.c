/* Training's forward and backward pass from end to end: one layer with random weights learns nothing here, but gets its
 * gradients, which are checked against the loss itself.
 *
 *   gradients [DEVICE] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <wherry/wherry.h>

enum { HIDDEN = 32, TOKENS = 12, FLOATS = TOKENS * HIDDEN };

struct state {
    wherry_context *context;
    wherry_device *device;
    wherry_model *model;
    wherry_session *session;
    float x[FLOATS], moved[FLOATS], y[FLOATS], dy[FLOATS], dx[FLOATS];
    float *gradient; /* of one weight */
};

static wherry_status open_layer(struct state *s, const char *device)
{
    const wherry_model_config config = {.struct_size = sizeof config,
                                        .layers = 1,
                                        .hidden = HIDDEN,
                                        .heads = 4,
                                        .feed_forward = 4 * HIDDEN,
                                        .vocabulary = 1,
                                        .positions = TOKENS,
                                        .token_types = 1};
    const wherry_training_desc training = {.struct_size = sizeof training, .dropout = 0.1f, .stack = true};
    const wherry_session_desc desc = {.struct_size = sizeof desc,
                                      .max_tokens = TOKENS,
                                      .dtype = WHERRY_DTYPE_F32, /* in f16 the loss would want a scale */
                                      .training = &training};
    wherry_status status = wherry_context_create(NULL, &s->context);
    if (status) return status;
    if ((status = wherry_device_open(s->context, device, &s->device))) return status;
    if ((status = wherry_model_create_random(s->context, &config, 1, &s->model))) return status;
    return wherry_session_create(s->context, s->device, s->model, &desc, &s->session);
}

/* Half the mean of the squared outputs; `s->dy` gets its gradient. */
static wherry_status forward(struct state *s, const float *x, double *loss)
{
    static const uint32_t offsets[] = {0, 7, TOKENS}; /* two sequences, back to back */
    const wherry_batch batch = {.struct_size = sizeof batch, .sequences = 2, .offsets = offsets};
    const wherry_step step = {.struct_size = sizeof step, .seed = 42, .step = 0}; /* the same elements are dropped */
    wherry_status status = wherry_forward(s->session, &batch, x, &step, s->y, FLOATS);
    *loss = 0;
    for (int i = 0; !status && i < FLOATS; i++) {
        *loss += 0.5 * s->y[i] * s->y[i] / FLOATS;
        s->dy[i] = s->y[i] / FLOATS;
    }
    return status;
}

static wherry_status print_gradients(struct state *s)
{
    for (size_t n = 0; n < wherry_gradient_count(s->session); n++) {
        wherry_gradient weight = {.struct_size = sizeof weight};
        wherry_status status = wherry_gradient_describe(s->session, n, &weight);
        if (status) return status;
        free(s->gradient);
        if (!(s->gradient = calloc(weight.elements, sizeof *s->gradient))) return WHERRY_STATUS_OUT_OF_HOST_MEMORY;
        status = wherry_gradient_read(s->session, n, s->gradient, weight.elements);
        if (status) return status;
        double square = 0;
        for (size_t i = 0; i < weight.elements; i++) square += (double)s->gradient[i] * s->gradient[i];
        printf("%-16s %-5s %6llu values, norm %.3e\n", weight.name, weight.dims, (unsigned long long)weight.elements,
               sqrt(square));
    }
    return WHERRY_STATUS_OK;
}

/* Moving x along its gradient changes the loss by the length of the way times the gradient's norm. */
static wherry_status check_slope(struct state *s, double *measured, double *expected)
{
    double square = 0, above, below;
    for (int i = 0; i < FLOATS; i++) square += (double)s->dx[i] * s->dx[i];
    *expected = sqrt(square);
    const double way = 1e-2;
    for (int i = 0; i < FLOATS; i++) s->moved[i] = (float)(s->x[i] + way * s->dx[i] / *expected);
    wherry_status status = forward(s, s->moved, &above);
    for (int i = 0; i < FLOATS; i++) s->moved[i] = (float)(s->x[i] - way * s->dx[i] / *expected);
    if (!status) status = forward(s, s->moved, &below);
    if (!status) *measured = (above - below) / (2 * way);
    return status;
}

static wherry_status run(struct state *s, const char *device, double *measured, double *expected)
{
    double loss;
    wherry_status status = open_layer(s, device);
    for (int i = 0; i < FLOATS; i++) s->x[i] = sinf(1.7f * (float)i);
    if (!status) status = forward(s, s->x, &loss);
    if (!status) status = wherry_backward(s->session, s->dy, FLOATS, s->dx, FLOATS);
    if (!status) printf("loss %.6f\n", loss);
    if (!status) status = print_gradients(s);
    return status ? status : check_slope(s, measured, expected);
}

int main(int argc, char **argv)
{
    static struct state s;
    double measured = 0, expected = 0;
    wherry_status status = run(&s, argc > 1 ? argv[1] : NULL, &measured, &expected);
    if (status)
        fprintf(stderr, "gradients: %s: %s\n", wherry_status_name(status),
                s.context ? wherry_last_error(s.context) : "");
    else
        printf("slope along the gradient of x: %.4e, its norm: %.4e\n", measured, expected);

    free(s.gradient);
    wherry_session_destroy(s.session);
    wherry_model_close(s.model);
    wherry_device_close(s.device);
    wherry_context_destroy(s.context);
    return status || fabs(measured - expected) > 0.01 * fabs(expected);
}
