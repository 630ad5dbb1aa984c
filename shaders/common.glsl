/* What every GLSL kernel shares: arguments, loads and stores of the storage type, the group's number, reductions over a
 * work-group. Twin of cl/common.h: the same names, so that kernels differ by dialect only. */
#include "interface.h"

#ifndef F16
#define F16 0
#endif
layout(local_size_x = 64, local_size_x_id = CONST_LOCAL_SIZE) in;
#define LOCAL_SIZE gl_WorkGroupSize.x
layout(constant_id = CONST_ALIGNED) const uint ALIGNED = 0;

#if F16
#extension GL_EXT_shader_16bit_storage : require
#define storage float16_t
#else
#define storage float
#endif

/* Elements in 16 bytes. */
#if F16
#define VECTOR 8
#else
#define VECTOR 4
#endif

/* Before a loop of constant length over a private array: unrolled, the array is in registers. */
#extension GL_EXT_control_flow_attributes : require
#define UNROLL [[unroll]]
/* Before a loop that is to stay one. */
#define ROLLED [[dont_unroll]]

/* An argument is one binding under two views: elements (`name`) and 16 bytes at a time (`name_wide`). */
#define INPUT_OF(slot, type, name) layout(set = 0, binding = slot) restrict readonly buffer name##_elements { type name[]; }
#define INPUT(slot, name)                                                                                              \
    INPUT_OF(slot, storage, name);                                                                                     \
    layout(set = 0, binding = slot) restrict readonly buffer name##_vectors { uvec4 name##_wide[]; }
#define OUTPUT_OF(slot, type, name)                                                                                    \
    layout(set = 0, binding = slot) restrict writeonly buffer name##_elements { type name[]; }
#define OUTPUT(slot, name)                                                                                             \
    layout(set = 0, binding = slot) restrict writeonly buffer name##_elements { storage name[]; };                     \
    layout(set = 0, binding = slot) restrict writeonly buffer name##_vectors { uvec4 name##_wide[]; }

/* One element, any alignment. A half is rounded by packHalf2x16 in both kinds of store, because drivers may round a
 * plain conversion differently. */
#define LOAD(name, at) float(name[at])
#if F16
#define STORE(name, at, value) name[at] = float16_t(unpackHalf2x16(packHalf2x16(vec2((value), 0.0))).x)
#else
#define STORE(name, at, value) name[at] = (value)
#endif

/* VECTOR elements at once, to or from float v[VECTOR]: `at` is a multiple of VECTOR (ALIGNED; tensors start on 16
 * bytes). */
#define LOAD_VECTOR(name, at, v) unpack_vector(name##_wide[(at) / VECTOR], v)
#define STORE_VECTOR(name, at, v) name##_wide[(at) / VECTOR] = pack_vector(v)

void unpack_vector(const uvec4 raw, out float v[VECTOR])
{
#if F16
    for (uint c = 0; c < 4; c++) {
        const vec2 pair = unpackHalf2x16(raw[c]);
        v[2 * c] = pair.x;
        v[2 * c + 1] = pair.y;
    }
#else
    for (uint c = 0; c < VECTOR; c++) v[c] = uintBitsToFloat(raw[c]);
#endif
}

uvec4 pack_vector(const float v[VECTOR])
{
#if F16
    return uvec4(packHalf2x16(vec2(v[0], v[1])), packHalf2x16(vec2(v[2], v[3])), packHalf2x16(vec2(v[4], v[5])),
                 packHalf2x16(vec2(v[6], v[7])));
#else
    return floatBitsToUint(vec4(v[0], v[1], v[2], v[3]));
#endif
}

/* What one load or store moves in kernels for any N: VECTOR elements where ALIGNED, else one; v has VECTOR in any case. */
const uint ACCESS = ALIGNED != 0 ? VECTOR : 1;
#define LOAD_ACCESS(name, at, v)                                                                                       \
    if (ALIGNED != 0) {                                                                                                \
        LOAD_VECTOR(name, at, v);                                                                                      \
    } else {                                                                                                           \
        v[0] = LOAD(name, at);                                                                                         \
    }
#define STORE_ACCESS(name, at, v)                                                                                      \
    if (ALIGNED != 0) {                                                                                                \
        STORE_VECTOR(name, at, v);                                                                                     \
    } else {                                                                                                           \
        STORE(name, at, v[0]);                                                                                         \
    }

/* The same as they lie in memory, raw_access: what is loaded long before it is used costs fewer registers so. Where not
 * ALIGNED it is one float. */
#define raw_access uvec4
#define FETCH_ACCESS(raw, name, at)                                                                                    \
    if (ALIGNED != 0) {                                                                                                \
        raw = name##_wide[(at) / VECTOR];                                                                              \
    } else {                                                                                                           \
        raw.x = floatBitsToUint(LOAD(name, at));                                                                       \
    }
#define UNPACK_ACCESS(raw, v)                                                                                          \
    if (ALIGNED != 0) {                                                                                                \
        unpack_vector(raw, v);                                                                                         \
    } else {                                                                                                           \
        v[0] = uintBitsToFloat(raw.x);                                                                                 \
    }

/* ACCESS floats from v to a tensor of floats, whose other view is OUTPUT_OF(slot, vec4, name_quads). */
#define STORE_FLOATS(name, at, v)                                                                                      \
    if (ALIGNED != 0) {                                                                                                \
        UNROLL for (uint c_ = 0; c_ < VECTOR; c_ += 4)                                                                 \
            name##_quads[((at) + c_) / 4] = vec4(v[c_], v[c_ + 1], v[c_ + 2], v[c_ + 3]);                              \
    } else {                                                                                                           \
        name[at] = v[0];                                                                                               \
    }

/* Work-groups are numbered through both dimensions of the grid. */
uint group_number() { return gl_WorkGroupID.x + gl_WorkGroupID.y * GRID_WIDTH; }
uint local_number() { return gl_LocalInvocationID.x; }

/* ---- reductions over the work-group ----
 * Every work-item gets the result. Two levels instead of a tree: three barriers whatever the size, and no dependence on
 * sub-groups. The order of the sum depends on LOCAL_SIZE only. A kernel defines REDUCE before it includes this file, and
 * all work-items call together. */
#ifdef REDUCE
#define REDUCE_PARTS 8
shared float scratch[LOCAL_SIZE + REDUCE_PARTS];

float group_sum(const float x)
{
    const uint l = local_number();
    scratch[l] = x;
    barrier();
    if (l < REDUCE_PARTS) {
        float part = 0.0;
        for (uint i = l; i < LOCAL_SIZE; i += REDUCE_PARTS) part += scratch[i];
        scratch[LOCAL_SIZE + l] = part;
    }
    barrier();
    float sum = 0.0;
    for (uint i = 0; i < min(REDUCE_PARTS, LOCAL_SIZE); i++) sum += scratch[LOCAL_SIZE + i];
    barrier(); /* the scratch may be used again */
    return sum;
}

float group_max(const float x)
{
    const uint l = local_number();
    scratch[l] = x;
    barrier();
    if (l < REDUCE_PARTS) {
        float part = scratch[l];
        for (uint i = l; i < LOCAL_SIZE; i += REDUCE_PARTS) part = max(part, scratch[i]);
        scratch[LOCAL_SIZE + l] = part;
    }
    barrier();
    float largest = scratch[LOCAL_SIZE];
    for (uint i = 1; i < min(REDUCE_PARTS, LOCAL_SIZE); i++) largest = max(largest, scratch[LOCAL_SIZE + i]);
    barrier();
    return largest;
}
#endif

/* Two sums at once, in the same order, by two barriers: the next call takes the other half of the scratch (0 or 1), and
 * only the one after it this again. For kernels that define REDUCE_PAIRS. */
#ifdef REDUCE_PAIRS
#define REDUCE_PARTS 8
shared vec2 pairs[2][LOCAL_SIZE + REDUCE_PARTS];

vec2 group_sum2(const vec2 x, const uint which)
{
    const uint l = local_number();
    pairs[which][l] = x;
    barrier();
    if (l < REDUCE_PARTS) {
        vec2 part = vec2(0.0);
        for (uint i = l; i < LOCAL_SIZE; i += REDUCE_PARTS) part += pairs[which][i];
        pairs[which][LOCAL_SIZE + l] = part;
    }
    barrier();
    vec2 sum = vec2(0.0);
    for (uint i = 0; i < min(REDUCE_PARTS, LOCAL_SIZE); i++) sum += pairs[which][LOCAL_SIZE + i];
    return sum;
}
#endif
