/* What is known to be wrong or slow with some drivers, compilers and devices, and what is done there instead: one table
 * for all APIs. docs/devices.md tells it to users. */
#ifndef WHERRY_BACKENDS_QUIRKS_H
#define WHERRY_BACKENDS_QUIRKS_H

#include "plan/device.h"

/* Switches, as bits of device_limits.quirks. */
enum {
    QUIRK_NO_MATRICES = 1 << 0,        /* no cooperative matrices, whatever the driver reports */
    QUIRK_LEAST_SUBGROUP = 1 << 1,     /* kernels made of them run in sub-groups of the least size */
    QUIRK_NO_FULL_SUBGROUPS = 1 << 2,  /* and are not made with the flag for full sub-groups */
    QUIRK_NO_16_BIT = 1 << 3,          /* nothing is stored in 16 bits */
    QUIRK_NO_UUID = 1 << 4,            /* the device's UUID tells no two devices apart */
    QUIRK_CHECK_ALL = 1 << 5,          /* portable kernels' numbers are checked, too, before a session runs them */
    QUIRK_NO_GROUP_ATTRIBUTE = 1 << 6, /* kernels do not declare their work-group's size */
    QUIRK_FLUSH_OFTEN = 1 << 7,        /* the queue is flushed after every second kernel */
    QUIRK_ONE_COMPILER = 1 << 8,       /* one thread compiles at a time */
    QUIRK_COMPILES_TWICE = 1 << 9,     /* first launches of a kernel compile: for small grids and for large ones */
    QUIRK_KEEPS_KERNELS = 1 << 10,     /* it has a cache of its own, and compiles once more when asked for a binary */
    QUIRK_OPTIMIZES_ONLY = 1 << 11,    /* its compiler does not survive being told not to optimize */
    QUIRK_COMPILE_GUARDED = 1 << 12    /* its compiler may crash: compiled under a guard (backends/guard.h), always */
};

/* What a row asks of a device; what it leaves out is not asked. */
struct quirk {
    const char *name;
    enum device_api api;             /* NONE: of any */
    uint32_t driver_id, vendor_id;   /* 0: any */
    const char *driver;              /* a part of driver_text */
    const char *versions;            /* of the driver (version_within) */
    const char *compiler, *releases; /* its name, and versions of it */
    const char *devices;             /* "A|B": one of these is a part of the device's name */
    const char *other_devices;       /* none of these is */
    uint32_t switches;
    const char *reason; /* what goes wrong */
    const char *source; /* who says so */
};

/* Row `index` of the table; NULL: there are no more. */
const struct quirk *quirk_at(size_t index);
bool quirk_applies(const struct quirk *quirk, const struct device_identity *identity);
/* "no-matrices" for bit QUIRK_NO_MATRICES, ...; NULL: no such switch. */
const char *quirk_switch_name(uint32_t bit);

/* The switches of all rows that apply, and their names ("a, b"; "": none). WHERRY_QUIRKS in the environment is asked
 * first: "none", or the names of switches with commas, which then stand in for the table. */
uint32_t quirks_find(const struct device_identity *identity, char *names, size_t size);

#endif
