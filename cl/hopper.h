/* Hopper's instructions for OpenCL C on NVIDIA: barriers in shared memory that count bytes, copies by the tensor copy
 * engine, matrix products of a warpgroup (wgmma). What exists on target sm_90a alone stands after the mark "//@", a
 * comment in the PTX that OpenCL returns; the backend removes marks and changes the target before it loads that PTX
 * again. Everything here is for kernels of whole warpgroups: 128 work-items with neighbouring numbers, 4 warps.
 *
 * Copies and wgmma reach shared memory by the asynchronous proxy, ordinary loads and stores by the generic one. What
 * ordinary stores wrote needs fence_async() before the asynchronous proxy may read it; what a copy wrote may be read by
 * both once its barrier's phase has ended. */
#include "interface.h"
#include "nvidia.h"

/* A barrier of `items` work-items, whole warps, with a number from 1 to 15 (0 is OpenCL's own). `barrier_pass` arrives
 * without waiting. */
static inline void barrier_named(const uint number, const uint items)
{
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(items) : "memory");
}

static inline void barrier_pass(const uint number, const uint items)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(items) : "memory");
}

/* What a work-item has written to global memory is seen by those of other work-groups that learn of it by what comes
 * after the fence, if they, too, have one before they read. */
static inline void fence_device(void) { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

/* Adds 1; returns what was there before. */
static inline uint count_up(__global uint *counter)
{
    uint before;
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
    return before;
}

/* Four floats on 16 bytes that other work-groups write: not from a multiprocessor's own cache. */
static inline void load_shared_by_device(float *v, __global const void *from)
{
    asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
                 : "l"(from)
                 : "memory");
}

/* Adds two floats to those on 8 bytes in memory, and waits for nothing: the cache adds them. What one work-item adds to
 * a place, and has stored there before, comes in its own order. */
static inline void add_pair(__global float2 *to, const float2 v)
{
    asm volatile("red.relaxed.gpu.global.add.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(v.x), "f"(v.y) : "memory");
}

/* The sums of eight elements in 16 bits, each rounded once. */
static inline uint4 add_eight(const uint4 a, const uint4 b)
{
    uint4 sum;
    asm("add.rn." NARROW "x2 %0, %1, %2;" : "=r"(sum.x) : "r"(a.x), "r"(b.x));
    asm("add.rn." NARROW "x2 %0, %1, %2;" : "=r"(sum.y) : "r"(a.y), "r"(b.y));
    asm("add.rn." NARROW "x2 %0, %1, %2;" : "=r"(sum.z) : "r"(a.z), "r"(b.z));
    asm("add.rn." NARROW "x2 %0, %1, %2;" : "=r"(sum.w) : "r"(a.w), "r"(b.w));
    return sum;
}

/* The same of their products, here and not where they are stored. */
static inline uint4 multiply_eight(const uint4 a, const uint4 b)
{
    uint4 product;
    asm volatile("mul.rn." NARROW "x2 %0, %1, %2;" : "=r"(product.x) : "r"(a.x), "r"(b.x));
    asm volatile("mul.rn." NARROW "x2 %0, %1, %2;" : "=r"(product.y) : "r"(a.y), "r"(b.y));
    asm volatile("mul.rn." NARROW "x2 %0, %1, %2;" : "=r"(product.z) : "r"(a.z), "r"(b.z));
    asm volatile("mul.rn." NARROW "x2 %0, %1, %2;" : "=r"(product.w) : "r"(a.w), "r"(b.w));
    return product;
}

/* 2^x; results below the smallest normal number become 0. */
static inline float exp2_fast(const float x)
{
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

/* Four 8 x 8 matrices of f16 to shared memory: lane l names the row of 16 bytes at which row l % 8 of matrix l / 8 is
 * put, and holds columns 2 (l % 4) and the next of row l / 4 of each. */
static inline void store_matrices(const uint address, const uint m0, const uint m1, const uint m2, const uint m3)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(m0), "r"(m1),
                 "r"(m2), "r"(m3)
                 : "memory");
}

/* A warpgroup gives registers back or takes them: all four warps, LITERAL a multiple of 8 from 24 to 240. A kernel is
 * launched with 65536 / (work-items) for each. */
#define REGISTERS_GIVE(LITERAL) asm volatile("//@setmaxnreg.dec.sync.aligned.u32 " #LITERAL ";" ::: "memory")
#define REGISTERS_TAKE(LITERAL) asm volatile("//@setmaxnreg.inc.sync.aligned.u32 " #LITERAL ";" ::: "memory")

/* ---- barriers in shared memory ----
 * Eight bytes each. A phase ends when `arrivals` have arrived and all bytes that were announced have come; phases
 * alternate between parity 0 and 1, and waiting for parity 1 of a new barrier returns at once. */

static inline void mbarrier_init(const uint barrier, const uint arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

static inline void mbarrier_arrive(const uint barrier)
{
    asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared::cta.b64 state, [%0];\n}" ::"r"(barrier) : "memory");
}

/* Arrives and announces bytes that copies will bring in this phase. */
static inline void mbarrier_expect(const uint barrier, const uint bytes)
{
    asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1;\n}" ::"r"(barrier),
                 "r"(bytes)
                 : "memory");
}

static inline void mbarrier_wait(const uint barrier, const uint parity)
{
    uint done;
    do {
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                     : "=r"(done)
                     : "r"(barrier), "r"(parity)
                     : "memory");
    } while (!done);
}

/* Shared memory written by ordinary stores, new barriers included, becomes visible to copies and wgmma. By every
 * work-item that wrote, before the barrier that tells the reader. */
static inline void fence_async(void) { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/* ---- copies into shared memory, by one work-item ----
 * Tiles come by a tensor map, 128 bytes in global memory that describe a matrix of 16-bit elements [rows][columns] and
 * a box of it (cl/tensor_maps.cl makes them). A box lies in shared memory row by row, its rows 128 bytes = 64 columns,
 * and the 16-byte pieces of row r are permuted: piece p lies at p ^ (r % 8), if the box begins on 1024 bytes. What is
 * outside of the matrix reads as 0, and counts as bytes. */

#define TENSOR_MAP_BYTES 128

/* The fields of a map that is made in shared memory, on 128 bytes, from zeros: by one work-item. */
static inline void tensor_map_stride(const uint map, const ulong stride)
{
    asm volatile("//@tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], 0, %1;" ::"r"(map), "l"(stride)
                 : "memory");
}

static inline void tensor_map_matrix(const uint map, const ulong address, const uint columns, const uint rows)
{
    asm volatile("//@tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(map), "l"(address)
                 : "memory");
    asm volatile("//@tensormap.replace.tile.rank.shared::cta.b1024.b32 [%0], %1;" ::"r"(map), "r"(1) /* minus one */
                 : "memory");
    asm volatile("//@tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 0, %1;" ::"r"(map), "r"(columns)
                 : "memory");
    asm volatile("//@tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 1, %1;" ::"r"(map), "r"(rows)
                 : "memory");
}

/* Also what is the same of all: elements of f16 side by side, the permutation of 128-byte rows, zeros outside. */
static inline void tensor_map_box(const uint map, const uint columns, const uint rows)
{
    asm volatile("//@tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], 0, %1;" ::"r"(map), "r"(columns)
                 : "memory");
    asm volatile("//@tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], 1, %1;" ::"r"(map), "r"(rows)
                 : "memory");
    asm volatile("//@tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%0], 0, %1;" ::"r"(map), "r"(1)
                 : "memory");
    asm volatile("//@tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%0], 1, %1;" ::"r"(map), "r"(1)
                 : "memory");
    asm volatile("//@tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%0], 6;" ::"r"(map) : "memory");
    asm volatile("//@tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%0], 0;" ::"r"(map) : "memory");
    asm volatile("//@tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%0], 3;" ::"r"(map) : "memory");
    asm volatile("//@tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%0], 0;" ::"r"(map) : "memory");
}

/* To global memory, by a whole warp; other kernels may use it after tensor_map_acquire. */
static inline void tensor_map_publish(__global const void *to, const uint map)
{
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], "
                 "128;" ::"l"(to),
                 "r"(map)
                 : "memory");
}

/* Once per map and kernel, before its first use: maps are written by another kernel. */
static inline void tensor_map_acquire(__global const void *map)
{
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
}

static inline void tensor_load(const uint to, __global const void *map, const uint column, const uint row,
                               const uint barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
                 "[%4];" ::"r"(to),
                 "l"(map), "r"(column), "r"(row), "r"(barrier)
                 : "memory");
}

/* A contiguous piece; both addresses and `bytes` are multiples of 16. */
static inline void bulk_load(const uint to, __global const void *from, const uint bytes, const uint barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

/* From shared memory to a tensor; outside of the matrix nothing is written. After fence_async() of all that wrote and a
 * barrier. Committed copies may be waited for: until their source has been read. */
static inline void tensor_store(__global const void *map, const uint column, const uint row, const uint from)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(column),
                 "r"(row), "r"(from)
                 : "memory");
}

static inline void bulk_commit(void) { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
#define BULK_WAIT_READ(LITERAL) asm volatile("cp.async.bulk.wait_group.read " #LITERAL ";" ::: "memory")

/* ---- wgmma ----
 * d[64][n] = a[64][16] b[16][n] (+ d) in f32, by a warpgroup. Work-item i's sums: d[c] is row 16 (i / 32) + i % 32 / 4
 * + 8 (c / 2 % 2), column 8 (c / 4) + 2 (i % 4) + c % 2. Operands lie in shared memory as tensor_load leaves them, boxes
 * 64 columns wide, named by descriptors; a may be in registers instead. A descriptor's low word is an address in units
 * of 16 bytes: `+ bytes / 16` moves it.
 *
 * Major K (TRANSPOSED 0): a's or b's rows are the box's rows, k its columns. A step of 16 in k is 32 bytes, a step of 8
 * rows 1024 bytes: any number of rows in one box.
 * Major M or N (TRANSPOSED 1): k is the box's row. A step of 16 in k is 2048 bytes; from 64 of M or N to the next 64 is
 * the next box, `box_bytes` further. */

static inline ulong wgmma_rows(const uint address)
{
    return (ulong)(address >> 4 & 0x3fff) | (ulong)1 << 16 | (ulong)64 << 32 | (ulong)1 << 62;
}

static inline ulong wgmma_columns(const uint address, const uint box_bytes)
{
    return (ulong)(address >> 4 & 0x3fff) | (ulong)(box_bytes >> 4) << 16 | (ulong)64 << 32 | (ulong)1 << 62;
}

/* Before the first product of a group, and whenever registers of it were written since the last. */
static inline void wgmma_fence(void) { asm volatile("//@wgmma.fence.sync.aligned;" ::: "memory"); }
static inline void wgmma_commit(void) { asm volatile("//@wgmma.commit_group.sync.aligned;" ::: "memory"); }

/* Until no more than LITERAL groups are under way. The sums d, COUNT of them, may be read after it: naming them here
 * keeps the compiler from reading them before. */
#define WGMMA_WAIT(LITERAL, COUNT, d)                                                                                  \
    asm volatile("//@wgmma.wait_group.sync.aligned " #LITERAL ";" : WGMMA_SUMS_##COUNT(d, 0)::"memory")

/* WGMMA_n(d, a, b, more, A_TRANSPOSED, B_TRANSPOSED): n columns, d of n / 2 floats, descriptors a and b; `more` is 0
 * where the sums begin. TRANSPOSED are literals or macros of such, 0 or 1.
 * WGMMA_REGISTERS_n(d, a, b, more, B_TRANSPOSED): a is a uint[4] of two f16 each: rows i % 32 / 4 and the same + 8 of
 * columns 2 (i % 4) and the next, then the same of columns + 8. Neither d nor a may change before the group is done. */
#define WGMMA_8(d, a, b, more, A_T, B_T) WGMMA_SHARED(8, 4, d, a, b, more, A_T, B_T, "%4", "%5", "%6")
#define WGMMA_32(d, a, b, more, A_T, B_T) WGMMA_SHARED(32, 16, d, a, b, more, A_T, B_T, "%16", "%17", "%18")
#define WGMMA_64(d, a, b, more, A_T, B_T) WGMMA_SHARED(64, 32, d, a, b, more, A_T, B_T, "%32", "%33", "%34")
#define WGMMA_128(d, a, b, more, A_T, B_T) WGMMA_SHARED(128, 64, d, a, b, more, A_T, B_T, "%64", "%65", "%66")
#define WGMMA_192(d, a, b, more, A_T, B_T) WGMMA_SHARED(192, 96, d, a, b, more, A_T, B_T, "%96", "%97", "%98")

#define WGMMA_REGISTERS_32(d, a, b, more, B_T)                                                                         \
    WGMMA_PRIVATE(32, 16, d, a, b, more, B_T, "%16, %17, %18, %19", "%20", "%21")
#define WGMMA_REGISTERS_64(d, a, b, more, B_T)                                                                         \
    WGMMA_PRIVATE(64, 32, d, a, b, more, B_T, "%32, %33, %34, %35", "%36", "%37")
#define WGMMA_REGISTERS_128(d, a, b, more, B_T)                                                                        \
    WGMMA_PRIVATE(128, 64, d, a, b, more, B_T, "%64, %65, %66, %67", "%68", "%69")

#define WGMMA_SHARED(n, COUNT, d, a, b, more, A_T, B_T, A, B, MORE)                                                    \
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, " MORE ", 0;\n//@wgmma.mma_async.sync.aligned.m64n" #n              \
                 "k16.f32." NARROW "." NARROW " {" WGMMA_NAMES_##COUNT "}, " A ", " B                                                \
                 ", p, 1, 1, " WGMMA_TEXT(A_T) ", " WGMMA_TEXT(B_T) ";\n}"                                             \
                 : WGMMA_SUMS_##COUNT(d, 0)                                                                            \
                 : "l"(a), "l"(b), "r"((uint)(more)))
#define WGMMA_PRIVATE(n, COUNT, d, a, b, more, B_T, A, B, MORE)                                                        \
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, " MORE ", 0;\n//@wgmma.mma_async.sync.aligned.m64n" #n              \
                 "k16.f32." NARROW "." NARROW " {" WGMMA_NAMES_##COUNT "}, {" A "}, " B ", p, 1, 1, " WGMMA_TEXT(B_T) ";\n}"         \
                 : WGMMA_SUMS_##COUNT(d, 0)                                                                            \
                 : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "l"(b), "r"((uint)(more)))
#define WGMMA_TEXT(literal) WGMMA_TEXT_OF(literal)
#define WGMMA_TEXT_OF(literal) #literal

#define WGMMA_SUMS_4(d, i) "+f"((d)[i]), "+f"((d)[(i) + 1]), "+f"((d)[(i) + 2]), "+f"((d)[(i) + 3])
#define WGMMA_SUMS_8(d, i) WGMMA_SUMS_4(d, i), WGMMA_SUMS_4(d, (i) + 4)
#define WGMMA_SUMS_16(d, i) WGMMA_SUMS_8(d, i), WGMMA_SUMS_8(d, (i) + 8)
#define WGMMA_SUMS_32(d, i) WGMMA_SUMS_16(d, i), WGMMA_SUMS_16(d, (i) + 16)
#define WGMMA_SUMS_64(d, i) WGMMA_SUMS_32(d, i), WGMMA_SUMS_32(d, (i) + 32)
#define WGMMA_SUMS_96(d, i) WGMMA_SUMS_64(d, i), WGMMA_SUMS_32(d, (i) + 64)

#define WGMMA_NAMES_4 "%0, %1, %2, %3"
#define WGMMA_NAMES_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_NAMES_32                                                                                                 \
    WGMMA_NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_NAMES_48                                                                                                 \
    WGMMA_NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_NAMES_64                                                                                                 \
    WGMMA_NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_NAMES_96                                                                                                 \
    WGMMA_NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"                  \
                   ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
