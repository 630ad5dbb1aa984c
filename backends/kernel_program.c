/* What a driver's compiler is given for a step. */
#include "backends/kernel_program.h"

#include <inttypes.h>
#include <string.h>

#include "backends/quirks.h"
#include "base/index.h"
#include "base/text.h"
#include "interface/interface.h"
#include "plan/constants.h"

bool embedded_kernel_at(bool vulkan, size_t index, struct embedded_kernel *out)
{
#ifdef WHERRY_HAVE_VULKAN
    if (vulkan) return vulkan_kernel(index, out);
#endif
#ifdef WHERRY_HAVE_OPENCL
    if (!vulkan) return opencl_kernel(index, out);
#endif
    (void)vulkan, (void)index, (void)out;
    return false;
}

bool opencl_kernel_find(const char *name, struct embedded_kernel *out)
{
    for (size_t i = 0; embedded_kernel_at(false, i, out); i++)
        if (!strcmp(out->name, name)) return true;
    return false;
}

bool vulkan_kernel_find(const char *name, enum storage type, size_t *index)
{
    struct embedded_kernel kernel;
    for (*index = 0; embedded_kernel_at(true, *index, &kernel); ++*index)
        if (kernel.type == type && !strcmp(kernel.name, name)) return true;
    return false;
}

/* Unsigned values, as the kernels' and GLSL's: a float's bits may have the highest one set. No option may let the
 * compiler change sums (-cl-mad-enable and the like): kernels say fma() where they mean it. -w, because PoCL counts
 * warnings on stderr. */
static bool write_options(const struct device_limits *limits, const struct opencl_form *form, const struct step *step,
                          char text[OPENCL_OPTIONS], struct error *e)
{
    struct text_writer options = text_begin(text, OPENCL_OPTIONS);
    text_add(&options, "-cl-std=CL1.2 -w %s%s-D F16=%d", form->unoptimized ? "-cl-opt-disable " : "",
             limits->nvidia_sm ? OPENCL_VERBOSE " " : "", step->f16 ? 1 : 0);
    if (step_type(step) == STORAGE_BF16) text_add(&options, " -D BF16=1");
    if (limits->quirks & QUIRK_NO_GROUP_ATTRIBUTE) text_add(&options, " -D GROUP_ATTRIBUTE=0");
    if (form->one_buffer) text_add(&options, " -D ONE_BUFFER=1");
    for (int i = 0; i < step->call->n_constants; i++) {
        const struct call_constant *c = &step->call->constants[i];
        if (c->id >= CONST_COUNT || !constants[c->id].name) {
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%s: there is no kernel constant number %u", step->name,
                        (unsigned)c->id);
        }
        text_add(&options, " -D %s=%" PRIu32 "u", constants[c->id].name, c->value);
    }
    return !options.cut || fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%s: more kernel constants than fit", step->name);
}

bool opencl_program(const struct device_limits *limits, const struct opencl_form *form, const struct step *step,
                    struct kernel_program *out, struct error *e)
{
    *out = (struct kernel_program){.spirv = false};
    if (!opencl_kernel_find(step->kernel, &out->kernel))
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s: this build has no OpenCL kernel \"%s\"", step->name,
                    step->kernel);
    return write_options(limits, form, step, out->options, e);
}

static void specialize(struct kernel_program *p, uint32_t id, uint32_t value)
{
    p->ids[p->n_constants] = id;
    p->values[p->n_constants++] = value;
}

void vulkan_program(const struct device_limits *limits, bool size_chosen, const struct embedded_kernel *kernel,
                    const struct call_constant *list, int count, struct kernel_program *out)
{
    *out = (struct kernel_program){.kernel = *kernel, .spirv = true};
    out->full_subgroups = kernel->matrices && !(limits->quirks & QUIRK_NO_FULL_SUBGROUPS);
    for (int i = 0; i < count; i++) specialize(out, list[i].id, list[i].value);
    specialize(out, CONST_CPU, limits->cpu);
    if (kernel->matrices && size_chosen) out->subgroup_size = limits->coopmat_subgroup;
}

uint64_t kernel_program_hash(const struct kernel_program *p)
{
    const unsigned char form[3] = {p->spirv, (unsigned char)p->kernel.type, p->full_subgroups};
    uint64_t hash = hash_text(HASH_START, p->kernel.name);
    hash = hash_bytes(hash, form, sizeof form);
    hash = hash_bytes(hash, &p->kernel.hash, sizeof p->kernel.hash);
    hash = hash_text(hash, p->options);
    for (int i = 0; i < p->n_constants; i++) {
        hash = hash_bytes(hash, &p->ids[i], sizeof p->ids[i]);
        hash = hash_bytes(hash, &p->values[i], sizeof p->values[i]);
    }
    return hash_bytes(hash, &p->subgroup_size, sizeof p->subgroup_size);
}
