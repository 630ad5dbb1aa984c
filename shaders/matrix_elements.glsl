/* What kernels do with the elements of a matrix of sums, by NV_cooperative_matrix2 (COOPMAT2) or by KHR_cooperative_matrix
 * alone, and how such a matrix becomes an operand. Included after MATRIX_*; before it a kernel defines OPERANDS, the
 * matrices that a sub-group makes operands of at once, for each M rows; it may define STRIP_KEYS, the columns of a strip
 * where that is more than a matrix, and PLACES_LATE, whether places are loaded where they are asked for: for kernels that
 * ask for them at few elements and have no registers to spare.
 *
 * EACH, EACH2: m = f(row, column, m, ...) of every element; EACH_OF, EACH_OF2: with that of another matrix. REDUCE_ROWS:
 * every element of BLOCKS matrices becomes what f makes of its row.
 * STRIP: columns that become operands at once. Matrix `column` of a strip is put into slot `slot` (or operands[at]) by
 * PUT_OPERAND; after OPERANDS_PUT, TAKE_OPERAND takes that of the strip's k-th MATRIX_K columns. Of strips in turn, `half` is
 * 0 and 1 in turn. */
#ifdef COOPMAT2
#define EACH(m, f, a) coopMatPerElementNV(m, m, f, a)
#define EACH2(m, f, a, b) coopMatPerElementNV(m, m, f, a, b)
#define EACH_OF(m, f, other) coopMatPerElementNV(m, m, f, other)
#define EACH_OF2(m, f, other, a) coopMatPerElementNV(m, m, f, other, a)
#define REDUCE_ROWS(ms, f)                                                                                             \
    UNROLL for (uint r = 0; r < BLOCKS; r++) coopMatReduceNV(ms[r], ms[r], gl_CooperativeMatrixReduceRowNV, f)
#define STRIP MATRIX_N
#define PUT_OPERAND(operands, at, slot, column, half, m) operands[at] = MATRIX_A(m)
#define OPERANDS_PUT
#define TAKE_OPERAND(operand, slot, k, half)
#define FIND_PLACES
#else
/* Which invocation has which element is not said, but can be seen: in a matrix that was loaded from its elements' places.
 * All matrices of a type are distributed alike. As numbers from 2^23 on places are exact floats. */
#ifndef PLACES_LATE
#define PLACES_LATE false
#endif
MATRIX_C places;
#define PLACES_ROW (MATRIX_N / 4 + 1)
shared uvec4 place_tile[PLACES_LATE ? MATRIX_M * PLACES_ROW : 1];
#define BEGIN_PLACES                                                                                                   \
    MATRIX_C at_ = places;                                                                                             \
    if (PLACES_LATE) coopMatLoad(at_, place_tile, 0, PLACES_ROW, BY_ROWS)
#define PLACE_ROW(e) (floatBitsToUint(at_[e]) >> 8 & 0xffu)
#define PLACE_COLUMN(e) (floatBitsToUint(at_[e]) & 0xffu)
#define PLACE_AT(row, column) (0x4b000000u | (row) << 8 | (column))

#define EACH(m, f, a)                                                                                                  \
    {                                                                                                                  \
        BEGIN_PLACES;                                                                                                  \
        MATRIX_C m_ = m;                                                                                               \
        UNROLL for (uint e = 0; e < places.length(); e++) m_[e] = f(PLACE_ROW(e), PLACE_COLUMN(e), m_[e], a);          \
        m = m_;                                                                                                        \
    }
#define EACH2(m, f, a, b)                                                                                              \
    {                                                                                                                  \
        BEGIN_PLACES;                                                                                                  \
        MATRIX_C m_ = m;                                                                                               \
        UNROLL for (uint e = 0; e < places.length(); e++) m_[e] = f(PLACE_ROW(e), PLACE_COLUMN(e), m_[e], a, b);       \
        m = m_;                                                                                                        \
    }
#define EACH_OF(m, f, other)                                                                                           \
    {                                                                                                                  \
        BEGIN_PLACES;                                                                                                  \
        MATRIX_C m_ = m;                                                                                               \
        const MATRIX_C other_ = other;                                                                                 \
        UNROLL for (uint e = 0; e < places.length(); e++) m_[e] = f(PLACE_ROW(e), PLACE_COLUMN(e), m_[e], other_[e]);  \
        m = m_;                                                                                                        \
    }
#define EACH_OF2(m, f, other, a)                                                                                       \
    {                                                                                                                  \
        BEGIN_PLACES;                                                                                                  \
        MATRIX_C m_ = m;                                                                                               \
        const MATRIX_C other_ = other;                                                                                 \
        UNROLL for (uint e = 0; e < places.length(); e++) m_[e] = f(PLACE_ROW(e), PLACE_COLUMN(e), m_[e], other_[e], a);\
        m = m_;                                                                                                        \
    }

/* A sub-group's own memory, twice M rows of a strip of each operand, 16 bytes further apart. */
#define STRIP_LEAST (MATRIX_N > MATRIX_K ? MATRIX_N : MATRIX_K)
#ifndef STRIP_KEYS
#define STRIP_KEYS STRIP_LEAST
#endif
#define STRIP (STRIP_KEYS > STRIP_LEAST ? STRIP_KEYS : STRIP_LEAST)
#define STAGING_ROW (OPERANDS * STRIP / VECTOR + 1)
#define STAGING_HALF (MATRIX_M * STAGING_ROW)
shared uvec4 staging[LOCAL_SIZE / SUBGROUP * 2 * STAGING_HALF];
#define STAGING (gl_SubgroupID * 2 * STAGING_HALF)
#define STAGING_AT(slot, half) (STAGING + (half)*STAGING_HALF + (slot)*STRIP / VECTOR)

#define PUT_OPERAND(operands, at, slot, column, half, m)                                                               \
    coopMatStore(MATRIX_Y(m), staging, STAGING_AT(slot, half) + (column)*MATRIX_N / VECTOR, STAGING_ROW, BY_ROWS)
#define OPERANDS_PUT subgroupBarrier()
#define TAKE_OPERAND(operand, slot, k, half)                                                                           \
    coopMatLoad(operand, staging, STAGING_AT(slot, half) + (k)*MATRIX_K / VECTOR, STAGING_ROW, BY_ROWS)

/* Matrices of floats in that memory, below each other. The rows are a work-item's each, one or none where they are no
 * more than work-items. */
#define FLOATS (MATRIX_N / 4)
#define FLOATS_ROW (FLOATS + 1)
#define FLOATS_ROWS (BLOCKS * MATRIX_M)

#define REDUCE_ROWS(ms, f)                                                                                             \
    {                                                                                                                  \
        subgroupBarrier(); /* nobody reads the memory any more */                                                      \
        UNROLL for (uint r = 0; r < BLOCKS; r++)                                                                       \
            coopMatStore(ms[r], staging, STAGING + r * MATRIX_M * FLOATS_ROW, FLOATS_ROW, BY_ROWS);                    \
        subgroupBarrier();                                                                                             \
        if (FLOATS_ROWS % SUBGROUP == 0) {                                                                             \
            UNROLL for (uint row = 0; row < FLOATS_ROWS; row += SUBGROUP)                                              \
                REDUCE_ROW(row + gl_SubgroupInvocationID, f);                                                          \
        } else {                                                                                                       \
            for (uint row = gl_SubgroupInvocationID; row < FLOATS_ROWS; row += SUBGROUP) REDUCE_ROW(row, f);           \
        }                                                                                                              \
        subgroupBarrier();                                                                                             \
        UNROLL for (uint r = 0; r < BLOCKS; r++)                                                                       \
        {                                                                                                              \
            BEGIN_PLACES;                                                                                              \
            MATRIX_C reduced;                                                                                          \
            UNROLL for (uint e = 0; e < places.length(); e++)                                                          \
                reduced[e] = uintBitsToFloat(staging[STAGING + (r * MATRIX_M + PLACE_ROW(e)) * FLOATS_ROW].x);         \
            ms[r] = reduced;                                                                                           \
        }                                                                                                              \
        subgroupBarrier();                                                                                             \
    }

#define REDUCE_ROW(row, f)                                                                                             \
    {                                                                                                                  \
        const uint at = STAGING + (row)*FLOATS_ROW;                                                                    \
        vec4 all = uintBitsToFloat(staging[at]);                                                                       \
        UNROLL for (uint c = 1; c < FLOATS; c++)                                                                       \
        {                                                                                                              \
            const vec4 next = uintBitsToFloat(staging[at + c]);                                                        \
            all = vec4(f(all.x, next.x), f(all.y, next.y), f(all.z, next.z), f(all.w, next.w));                        \
        }                                                                                                              \
        staging[at].x = floatBitsToUint(f(f(all.x, all.y), f(all.z, all.w)));                                          \
    }

/* Quad i of a matrix of places. */
uvec4 places_of(const uint i)
{
    const uint place = PLACE_AT(i / (MATRIX_N / 4), i % (MATRIX_N / 4) * 4);
    return uvec4(place, place + 1, place + 2, place + 3);
}

void find_places()
{
    const uint quads = MATRIX_N / 4;
    if (PLACES_LATE) {
        for (uint i = local_number(); i < MATRIX_M * quads; i += LOCAL_SIZE)
            place_tile[i / quads * PLACES_ROW + i % quads] = places_of(i);
        barrier();
        return;
    }
    for (uint i = gl_SubgroupInvocationID; i < MATRIX_M * quads; i += SUBGROUP)
        staging[STAGING + i / quads * FLOATS_ROW + i % quads] = places_of(i);
    subgroupBarrier();
    coopMatLoad(places, staging, STAGING, FLOATS_ROW, BY_ROWS);
    subgroupBarrier();
}
#define FIND_PLACES find_places()
#endif
