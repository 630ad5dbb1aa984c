/* An OpenCL driver with one device: a Hopper GPU of few multiprocessors, emulated on the host's processor, for tests
 * where there is none. To the library it is NVIDIA's driver: kernels become text with a target, which the library
 * patches and loads again; what runs in the end are the kernels as they are, compiled for the host, with their inline
 * assembly interpreted.
 *
 * Work-groups run one after the other; a group's work-items take turns on one thread and are switched where they wait.
 * So the emulator sees when nobody can go on, and says who waits for what. Copies that the GPU makes in the background
 * are made as late as the program allows. Launches differ in the order in which work-items take turns, and in whom of
 * them they let wait as long as anybody else can go on. */
#ifndef WHERRY_TESTS_EMULATOR_H
#define WHERRY_TESTS_EMULATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    WARP = 32,
    WARPGROUP = 128,
    MOST_ITEMS = 1024,    /* of a work-group */
    SHARED_MOST = 232448, /* bytes of a work-group */
    NAMED_BARRIERS = 16,  /* 0 is barrier()'s */
    KERNEL_ARGUMENTS = 40,
    SHARED_WORDS = (SHARED_MOST + 4096) / 8
};

/* ---- build.c: from the text of a program to functions of this process ---- */

struct module {
    void *library;
    unsigned char *shared; /* its __local arrays */
    size_t shared_bytes;
    bool hopper; /* target sm_90a: it may use what only that has */
};

/* The program as NVIDIA's driver would give it out as PTX: a target, then the text that module_load takes. NULL: the
 * compiler refuses it, and the log says why. Freed by the caller. */
char *module_text(const char *source, const char *options, char *log, size_t log_size);
bool module_load(struct module *m, const char *text, char *log, size_t log_size);
void module_close(struct module *m);
/* The function and its required work-group size (0: none); NULL: there is none. */
void *module_kernel(const struct module *m, const char *name, uint32_t *required);

/* ---- machine.c: a launch ---- */

struct launch {
    const char *name;
    const struct module *module;
    void *function;
    uint64_t arguments[KERNEL_ARGUMENTS];
    uint32_t groups[3], items;
    uint64_t offset[3]; /* of work-items' numbers */
};

/* False: the kernel did what the GPU would punish, and the message says what. */
bool machine_run(const struct launch *l, char *message, size_t size);

struct lanes { /* of a warp: what they show each other, in turns */
    const void *instruction;
    uint32_t word[6];
};

struct copy {                 /* that cp.async began */
    uint32_t to, size, bytes; /* size: of its place, where what is not copied becomes 0 */
    const void *from;
    uint32_t group;
};

struct item {
    void *stack_pointer;
    unsigned char *stack;
    uint32_t number;
    bool done;
    bool lazy;               /* goes on when the others can't */
    const uint32_t *counter; /* waits until it is no longer `value`; NULL: for nothing */
    uint32_t value;
    bool waits_for_phase; /* counter is an mbarrier's: then may be told to ask again */
    char waits_for[64];
    uint32_t turn; /* of the lanes' exchange */
    struct copy *copies;
    uint32_t n_copies, room, copy_group;
    const void *acquired[4]; /* tensor maps */
    uint32_t n_acquired;
};

struct warp {
    uint32_t size, arrived, generation;
    struct lanes lanes[2][WARP];
    uint32_t factors_of; /* the generation of which these are */
    float factors[256 * 16];
};

struct meeting {
    uint32_t items, arrived, generation;
};

struct mbarrier {
    bool live;
    uint32_t arrivals, pending, phase;
    int64_t bytes;
};

/* The work-item that runs, and what its group shares. */
extern struct item *item;
extern struct group {
    const struct launch *launch;
    uint32_t id[3];
    struct item items[MOST_ITEMS];
    struct warp warps[MOST_ITEMS / WARP];
    struct meeting named[NAMED_BARRIERS], warpgroups[MOST_ITEMS / WARPGROUP];
    struct mbarrier mbarriers[SHARED_WORDS];
    uint32_t used[64]; /* the mbarriers that are live */
    uint32_t n_used;
} group;

/* Lets others go on until the counter has another value. */
void item_wait(const uint32_t *counter, uint32_t value, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Waits for the phase that the counter counts; false: nobody else could go on, ask again. */
bool item_wait_phase(const uint32_t *counter, uint32_t value, uint32_t barrier);
/* Until the others can't go on. */
void item_yield(void);
/* Ends the launch. */
void machine_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void warp_meet(const void *instruction);
void meet(struct meeting *m, uint32_t number, uint32_t items, bool stay);

/* ---- ptx.c: instructions ---- */

void instructions_finish(void); /* copies in the background: make those that are pending */
bool instructions_pending(void);
void instructions_forget(void); /* decoded ones: a module was closed */
void item_finish(void);         /* its kernel has returned */
float half_to_float(uint16_t half);
uint16_t float_to_half(float value);

/* ---- driver.c ---- */

/* Whether these bytes lie in a buffer of the device. */
bool memory_holds(const void *pointer, size_t bytes);

#endif
