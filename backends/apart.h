/* Compiling in a process apart: kernels that a driver of this version has not compiled before, or any of a driver that
 * is known to crash, are compiled by a program that wherry_context_desc.compiler names and that leaves them in the
 * cache. When the driver ends that process, or it stands still, the guard (guard.h) has the kernel's name, and this
 * process lives on without it. */
#ifndef WHERRY_BACKENDS_APART_H
#define WHERRY_BACKENDS_APART_H

#include "base/host.h"
#include "wherry/wherry.h"

/* The first line of the file that says what is to be compiled. */
#define APART_MAGIC "wherry compiles 1"

/* One program in the words of its backend: a line of text without its end. */
struct apart_program {
    char kernel[64]; /* its name, and of two types which: "gemm", "gemm:f16" */
    uint64_t code;   /* a hash of its code */
    char *form;      /* options, or constants; "": none */
};

struct apart {
    const struct host *host;
    const char *device; /* its id, by which another process opens it; "": none does */
    uint64_t driver;    /* a hash of device, driver and version */
    bool always;        /* of this driver all is compiled apart */
};

/* What a backend does about programs that the cache lacks. */
enum apart_way {
    APART_PLAIN,    /* compiles them: the driver has done so before */
    APART_GUARDED,  /* compiles them with a guard */
    APART_COMPILED, /* finds them in the cache, but for those that are refused, and compiles others with a guard */
    APART_FAILED,   /* gives up; *e says why */
};

/* Compiles them apart where that is called for. */
enum apart_way apart_compile(const struct apart *apart, const struct apart_program *programs, size_t count,
                             wherry_progress progress, void *user, struct error *e);
/* All of them are compiled now: the driver is known to do that. */
void apart_learn(const struct apart *apart, const struct apart_program *programs, size_t count);

/* ---- in that process ---- */

/* Where what it does is told: struct host has one in a process that compiles for another. */
struct apart_teller {
    void (*write)(const char *line, void *user);
    void *user;
};

/* One program is done; called from several threads. */
void apart_tell(const struct host *host, const char *kernel);

#endif
