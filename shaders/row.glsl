/* A row of N elements in the registers of a work-group, or of a team in it: loads, stores, statistics. Twin of
 * cl/row.h.
 *
 * The macros and functions work on one array, a global, because a function's inout array is a copy to some compilers.
 * Step i of a work-item holds the ACCESS columns from column_of(i) on. No load is in a branch, so that all of a row are
 * in flight together: past the row's end a load repeats the last columns, and what it brings is left out of sums and
 * stores. */
layout(constant_id = CONST_N) const uint N = 1;
layout(constant_id = CONST_ROWS) const uint ROWS = HEADER_TOKENS;
layout(constant_id = CONST_RMS) const uint RMS = RMS_NONE;
layout(constant_id = CONST_BETA) const uint BETA = 1;

const uint STEPS = (N + ACCESS * TEAM - 1) / (ACCESS * TEAM);

float held[STEPS][VECTOR]; /* only ACCESS of VECTOR are used */

/* A team's row; a team after the last row repeats that one and stores nothing. For work-groups that have rows. */
#define FIRST_ROW (group_number() * TEAMS)
#define BEGIN_ROW                                                                                                      \
    const uint own_row = FIRST_ROW + local_number() / TEAM, row = min(own_row, batch[ROWS] - 1);                       \
    const bool stored = own_row == row

uint column_of(const uint i) { return (i * TEAM + local_number() % TEAM) * ACCESS; }
/* Whether step i is inside the row: known to the compiler but for the last one. */
bool in_row(const uint i) { return (i + 1) * ACCESS * TEAM <= N || column_of(i) < N; }
/* Where step i loads from. */
uint column_inside(const uint i) { return min(column_of(i), N - ACCESS); }

/* held = name[first ...] */
#define ROW_LOAD(name, first)                                                                                          \
    UNROLL for (uint i = 0; i < STEPS; i++) { LOAD_ACCESS(name, (first) + column_inside(i), held[i]); }

/* held += name[first ...] */
#define ROW_ADD(name, first)                                                                                           \
    UNROLL for (uint i = 0; i < STEPS; i++)                                                                            \
    {                                                                                                                  \
        float loaded[VECTOR];                                                                                          \
        LOAD_ACCESS(name, (first) + column_inside(i), loaded);                                                         \
        UNROLL for (uint c = 0; c < ACCESS; c++) held[i][c] += loaded[c];                                              \
    }

/* held *= dropout's factors of this row */
#define ROW_DROPOUT(row)                                                                                               \
    UNROLL for (uint i = 0; i < STEPS; i++) { dropout_access(held[i], row, column_of(i)); }

/* What a row is scaled by, as it lies in gamma. */
#define SCALE_OF(gamma) (RMS == RMS_ONE_GAMMA ? 1.0 + (gamma) : (gamma))

/* held = held * gamma + beta, where there is a beta */
#define ROW_SCALE_SHIFT(gamma, beta)                                                                                   \
    UNROLL for (uint i = 0; i < STEPS; i++)                                                                            \
    {                                                                                                                  \
        float scale[VECTOR], shift[VECTOR];                                                                            \
        LOAD_ACCESS(gamma, column_inside(i), scale);                                                                   \
        if (BETA != 0) {                                                                                               \
            LOAD_ACCESS(beta, column_inside(i), shift);                                                                \
            UNROLL for (uint c = 0; c < ACCESS; c++) held[i][c] = fma(held[i][c], SCALE_OF(scale[c]), shift[c]);       \
        } else {                                                                                                       \
            UNROLL for (uint c = 0; c < ACCESS; c++) held[i][c] *= SCALE_OF(scale[c]);                                 \
        }                                                                                                              \
    }

/* name[first ...] = held */
#define ROW_STORE(name, first)                                                                                         \
    UNROLL for (uint i = 0; i < STEPS; i++)                                                                            \
    {                                                                                                                  \
        if (in_row(i)) {                                                                                               \
            STORE_ACCESS(name, (first) + column_of(i), held[i]);                                                       \
        }                                                                                                              \
    }

/* held *= factor */
void row_scale(const float factor)
{
    UNROLL for (uint i = 0; i < STEPS; i++)
    {
        UNROLL for (uint c = 0; c < ACCESS; c++) held[i][c] *= factor;
    }
}

/* The row's sum, to every work-item. The order depends on N, TEAM and ACCESS only. */
float row_sum()
{
    float part = 0.0;
    UNROLL for (uint i = 0; i < STEPS; i++)
    {
        UNROLL for (uint c = 0; c < ACCESS; c++) part += in_row(i) ? held[i][c] : 0.0;
    }
    return group_sum(part);
}

float row_square_sum()
{
    float part = 0.0;
    UNROLL for (uint i = 0; i < STEPS; i++)
    {
        UNROLL for (uint c = 0; c < ACCESS; c++) part = in_row(i) ? fma(held[i][c], held[i][c], part) : part;
    }
    return group_sum(part);
}

/* held = (held - mean) / sqrt(variance + epsilon). The variance is the centred row's, not a difference of two large
 * sums, which would cancel where the mean is large. With RMS the mean counts as 0. */
void row_standardize(const float epsilon)
{
    const float mean = RMS == RMS_NONE ? row_sum() / float(N) : 0.0;
    UNROLL for (uint i = 0; i < STEPS; i++)
    {
        UNROLL for (uint c = 0; c < ACCESS; c++) held[i][c] -= mean;
    }
    row_scale(1.0 / sqrt(row_square_sum() / float(N) + epsilon));
}
