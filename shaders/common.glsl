/* What every GLSL kernel shares: arguments, loads and stores of the storage type, the group's number, reductions over a
 * work-group. Twin of cl/common.h: the same names, so that kernels differ by dialect only. */
#include "interface.h"

#ifndef F16
#define F16 0
#endif
#ifndef BF16
#define BF16 0
#endif
layout(local_size_x = 64, local_size_x_id = CONST_LOCAL_SIZE) in;
#define LOCAL_SIZE gl_WorkGroupSize.x
layout(constant_id = CONST_ALIGNED) const uint ALIGNED = 0;

/* Elements of 16 bits are f16 or, with BF16, the upper halves of floats, taken apart by bits: 16-bit storage is all that
 * a device needs for either. */
#if F16
#extension GL_EXT_shader_16bit_storage : require
#endif
#if BF16
#define storage uint16_t
#elif F16
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

/* Two elements of 16 bits, as they lie in a word. */
#if BF16
vec2 unpack_pair(const uint raw) { return uintBitsToFloat(uvec2(raw << 16, raw & 0xffff0000u)); }

/* Rounded to nearest, ties to even; what is too large becomes infinity, and a NaN stays one. */
uint bf16_bits(const float v)
{
    const uint bits = floatBitsToUint(v);
    return (bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40u : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

uint pack_pair(const vec2 v) { return bf16_bits(v.x) | bf16_bits(v.y) << 16; }
#elif F16
#define unpack_pair(raw) unpackHalf2x16(raw)
#define pack_pair(v) packHalf2x16(v)
#endif

/* One element, any alignment. A half is rounded by packHalf2x16 in both kinds of store, because drivers may round a
 * plain conversion differently. */
#if BF16
#define LOAD(name, at) uintBitsToFloat(uint(name[at]) << 16)
#define STORE(name, at, value) name[at] = uint16_t(bf16_bits(value))
#elif F16
#define LOAD(name, at) float(name[at])
#define STORE(name, at, value) name[at] = float16_t(unpackHalf2x16(packHalf2x16(vec2((value), 0.0))).x)
#else
#define LOAD(name, at) float(name[at])
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
        const vec2 pair = unpack_pair(raw[c]);
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
    return uvec4(pack_pair(vec2(v[0], v[1])), pack_pair(vec2(v[2], v[3])), pack_pair(vec2(v[4], v[5])),
                 pack_pair(vec2(v[6], v[7])));
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

/* v = ACCESS floats from a tensor of floats, whose other view is INPUT_OF(slot, vec4, name_quads). */
#define LOAD_FLOATS(name, at, v)                                                                                       \
    if (ALIGNED != 0) {                                                                                                \
        UNROLL for (uint c_ = 0; c_ < VECTOR; c_ += 4)                                                                 \
        {                                                                                                              \
            const vec4 quad_ = name##_quads[((at) + c_) / 4];                                                          \
            v[c_] = quad_.x;                                                                                           \
            v[c_ + 1] = quad_.y;                                                                                       \
            v[c_ + 2] = quad_.z;                                                                                       \
            v[c_ + 3] = quad_.w;                                                                                       \
        }                                                                                                              \
    } else {                                                                                                           \
        v[0] = name[at];                                                                                               \
    }

/* Of dropout, and of a launch, which may be a part of a kernel's work-groups: the first it has. */
layout(push_constant) uniform Push { uint site, first_group; };

/* Work-groups are numbered through both dimensions of the grid. */
uint group_number() { return first_group + gl_WorkGroupID.x + gl_WorkGroupID.y * GRID_WIDTH; }
uint local_number() { return gl_LocalInvocationID.x; }

/* ---- reductions over the work-group, or over each team of TEAM neighbours in it ----
 * Every work-item gets the result. Two levels instead of a tree: three barriers whatever the size, and no dependence on
 * sub-groups. The order of the sum depends on TEAM only. A kernel defines REDUCE before it includes this file, and all
 * work-items call together. */
#ifdef REDUCE
layout(constant_id = CONST_TEAM) const uint TEAM_GIVEN = 0; /* 0: the work-group */
const uint TEAM = TEAM_GIVEN != 0 ? TEAM_GIVEN : LOCAL_SIZE;
const uint TEAMS = LOCAL_SIZE / TEAM;
#define REDUCE_PARTS 8
shared float scratch[LOCAL_SIZE + TEAMS * REDUCE_PARTS];

float group_sum(const float x)
{
    const uint l = local_number(), lane = l % TEAM, parts = LOCAL_SIZE + l / TEAM * REDUCE_PARTS;
    scratch[l] = x;
    barrier();
    if (lane < REDUCE_PARTS) {
        float part = 0.0;
        for (uint i = lane; i < TEAM; i += REDUCE_PARTS) part += scratch[l - lane + i];
        scratch[parts + lane] = part;
    }
    barrier();
    float sum = 0.0;
    for (uint i = 0; i < min(REDUCE_PARTS, TEAM); i++) sum += scratch[parts + i];
    barrier(); /* the scratch may be used again */
    return sum;
}

float group_max(const float x)
{
    const uint l = local_number(), lane = l % TEAM, parts = LOCAL_SIZE + l / TEAM * REDUCE_PARTS;
    scratch[l] = x;
    barrier();
    if (lane < REDUCE_PARTS) {
        float part = x;
        for (uint i = lane; i < TEAM; i += REDUCE_PARTS) part = max(part, scratch[l - lane + i]);
        scratch[parts + lane] = part;
    }
    barrier();
    float largest = scratch[parts];
    for (uint i = 1; i < min(REDUCE_PARTS, TEAM); i++) largest = max(largest, scratch[parts + i]);
    barrier();
    return largest;
}
#endif

/* SUMS sums at once, in place in `sums`, in an order that depends on LOCAL_SIZE and SUMS only; a power of two up to
 * REDUCE_PARTS. Three barriers for all of them: first a work-item adds SUMS of one sum's values, then eight work-items
 * divide what is left between them. A kernel with REDUCE that wants it says GROUP_SUMS after its constant SUMS. The
 * strides keep neighbours in different banks. */
#define GROUP_SUMS                                                                                                     \
    const uint SHARE = LOCAL_SIZE / SUMS; /* values of a sum after the first step */                                  \
    const uint STRIDE = LOCAL_SIZE + SHARE;                                                                            \
    shared float first_sums[STRIDE * SUMS], second_sums[LOCAL_SIZE + SUMS], last_sums[REDUCE_PARTS];                   \
    float sums[SUMS];                                                                                                  \
    void group_sums()                                                                                                  \
    {                                                                                                                  \
        const uint l = local_number(), sharers = REDUCE_PARTS / SUMS;                                                  \
        UNROLL for (uint s = 0; s < SUMS; s++) first_sums[s * STRIDE + l] = sums[s];                                   \
        barrier();                                                                                                     \
        float part = 0.0;                                                                                              \
        UNROLL for (uint i = 0; i < SUMS; i++) part += first_sums[l / SHARE * STRIDE + l % SHARE + i * SHARE];         \
        second_sums[l / SHARE * (SHARE + 1) + l % SHARE] = part;                                                       \
        barrier();                                                                                                     \
        if (l < REDUCE_PARTS) {                                                                                        \
            part = 0.0;                                                                                                \
            UNROLL for (uint i = 0; i < LOCAL_SIZE / REDUCE_PARTS; i++)                                                \
                part += second_sums[l / sharers * (SHARE + 1) + l % sharers + i * sharers];                            \
            last_sums[l] = part;                                                                                       \
        }                                                                                                              \
        barrier();                                                                                                     \
        UNROLL for (uint s = 0; s < SUMS; s++)                                                                         \
        {                                                                                                              \
            sums[s] = last_sums[s * sharers];                                                                          \
            UNROLL for (uint i = 1; i < sharers; i++) sums[s] += last_sums[s * sharers + i];                           \
        }                                                                                                              \
    }
