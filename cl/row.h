/* A row of N elements in the registers of a work-group, or of a team in it: loads, stores, statistics. Twin of
 * shaders/row.glsl.
 *
 * The macros and functions work on an array that the kernel declares: float held[STEPS][ACCESS]. Step i of a work-item
 * holds the ACCESS columns from column_of(i) on. No load is in a branch, so that all of a row are in flight together:
 * past the row's end a load repeats the last columns, and what it brings is left out of sums and stores. */
#ifndef N
#define N 1
#endif
#ifndef RMS
#define RMS RMS_NONE
#endif
#ifndef BETA
#define BETA 1
#endif
#ifndef ROWS
#define ROWS HEADER_TOKENS
#endif

#define STEPS ((N + ACCESS * TEAM - 1) / (ACCESS * TEAM))

/* A team's row; a team after the last row repeats that one and stores nothing. For work-groups that have rows. Whether
 * it stores is not asked as own_row == row: PoCL 3.1 and 7.1 then let teams after the last row store theirs, where a
 * row's last step is not full (6.0 does not). */
#define FIRST_ROW (group_number() * TEAMS)
#define BEGIN_ROW                                                                                                      \
    const uint own_row = FIRST_ROW + local_number() / TEAM, row = min(own_row, batch[ROWS] - 1);                       \
    const bool stored = own_row < batch[ROWS]

static inline uint column_of(const uint i) { return (i * TEAM + local_number() % TEAM) * ACCESS; }
/* Whether step i is inside the row: known to the compiler but for the last one. */
static inline bool in_row(const uint i) { return (i + 1) * ACCESS * TEAM <= N || column_of(i) < N; }
/* Where step i loads from. Of the row's last vector some columns may lie after it where rows have a pitch. */
static inline uint column_inside(const uint i) { return min(column_of(i), (uint)((N - 1) / ACCESS * ACCESS)); }

/* held = name[first ...] */
#define ROW_LOAD(name, first)                                                                                          \
    UNROLL for (uint i = 0; i < STEPS; i++) { LOAD_ACCESS(name, (first) + column_inside(i), held[i]); }

/* held += name[first ...] */
#define ROW_ADD(name, first)                                                                                           \
    UNROLL for (uint i = 0; i < STEPS; i++)                                                                            \
    {                                                                                                                  \
        float loaded[ACCESS];                                                                                          \
        LOAD_ACCESS(name, (first) + column_inside(i), loaded);                                                         \
        UNROLL for (uint c = 0; c < ACCESS; c++) held[i][c] += loaded[c];                                              \
    }

/* held *= dropout's factors of this row */
#define ROW_DROPOUT(row)                                                                                               \
    UNROLL for (uint i = 0; i < STEPS; i++) { dropout_access(held[i], batch, site, row, column_of(i)); }

/* What a row is scaled by, as it lies in gamma. */
#define SCALE_OF(gamma) (RMS == RMS_ONE_GAMMA ? 1.0f + (gamma) : (gamma))

/* held = held * gamma + beta, where there is a beta */
#if BETA
#define ROW_SCALE_SHIFT(gamma, beta)                                                                                   \
    UNROLL for (uint i = 0; i < STEPS; i++)                                                                            \
    {                                                                                                                  \
        float scale[ACCESS], shift[ACCESS];                                                                            \
        LOAD_ACCESS(gamma, column_inside(i), scale);                                                                   \
        LOAD_ACCESS(beta, column_inside(i), shift);                                                                    \
        UNROLL for (uint c = 0; c < ACCESS; c++) held[i][c] = fma(held[i][c], SCALE_OF(scale[c]), shift[c]);           \
    }
#else
#define ROW_SCALE_SHIFT(gamma, beta)                                                                                   \
    UNROLL for (uint i = 0; i < STEPS; i++)                                                                            \
    {                                                                                                                  \
        float scale[ACCESS];                                                                                           \
        LOAD_ACCESS(gamma, column_inside(i), scale);                                                                   \
        UNROLL for (uint c = 0; c < ACCESS; c++) held[i][c] *= SCALE_OF(scale[c]);                                     \
    }
#endif

/* name[first ...] = held */
#define ROW_STORE(name, first)                                                                                         \
    UNROLL for (uint i = 0; i < STEPS; i++)                                                                            \
    {                                                                                                                  \
        if (in_row(i)) {                                                                                               \
            STORE_ACCESS(name, (first) + column_of(i), held[i]);                                                       \
        }                                                                                                              \
    }

/* held *= factor */
static inline void row_scale(float (*held)[ACCESS], const float factor)
{
    UNROLL for (uint i = 0; i < STEPS; i++)
    {
        UNROLL for (uint c = 0; c < ACCESS; c++) held[i][c] *= factor;
    }
}

/* The row's sum, to every work-item. The order depends on N, TEAM and ACCESS only. */
INLINE float row_sum(float (*held)[ACCESS], __local float *scratch)
{
    float part = 0.0f;
    UNROLL for (uint i = 0; i < STEPS; i++)
    {
        UNROLL for (uint c = 0; c < ACCESS; c++) part += in_row(i) ? held[i][c] : 0.0f;
    }
    return group_sum(part, scratch);
}

INLINE float row_square_sum(float (*held)[ACCESS], __local float *scratch)
{
    float part = 0.0f;
    UNROLL for (uint i = 0; i < STEPS; i++)
    {
        UNROLL for (uint c = 0; c < ACCESS; c++) part = in_row(i) ? fma(held[i][c], held[i][c], part) : part;
    }
    return group_sum(part, scratch);
}

/* held = (held - mean) / sqrt(variance + epsilon). The variance is the centred row's, not a difference of two large
 * sums, which would cancel where the mean is large. With RMS the mean counts as 0. */
INLINE void row_standardize(float (*held)[ACCESS], const float epsilon, __local float *scratch)
{
#if RMS == RMS_NONE
    const float mean = row_sum(held, scratch) / (float)(N);
    UNROLL for (uint i = 0; i < STEPS; i++)
    {
        UNROLL for (uint c = 0; c < ACCESS; c++) held[i][c] -= mean;
    }
#endif
    row_scale(held, 1.0f / sqrt(row_square_sum(held, scratch) / (float)(N) + epsilon));
}
