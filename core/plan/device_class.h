/* Classes of devices: those of a class have registers, shared memory and sub-groups alike, so that the same sizes fit
 * them (plan/class_sizes.h). */
#ifndef WHERRY_PLAN_DEVICE_CLASS_H
#define WHERRY_PLAN_DEVICE_CLASS_H

struct device_limits;

enum device_class {
    CLASS_GENERIC, /* nothing is known of it */
    CLASS_CPU,
    CLASS_AMD_GCN,   /* 64 lanes, 256 registers a lane, 10 waves a SIMD unit */
    CLASS_AMD_CDNA,  /* 64 lanes, 512 registers a lane with those of the matrix units */
    CLASS_AMD_RDNA,  /* RDNA and RDNA2: 32 or 64 lanes, 256 registers a lane */
    CLASS_AMD_RDNA3, /* half as many registers again on most chips; matrices of a wave */
    CLASS_AMD_RDNA4,
    CLASS_INTEL_XE_LP,   /* 8 lanes a unit, 128 registers of 32 bytes a thread */
    CLASS_INTEL_XE_HPG,  /* Arc A, Meteor Lake, Arrow Lake; 256 registers where half as many threads run */
    CLASS_INTEL_XE2,     /* 16 lanes a unit, registers of 64 bytes: Lunar Lake, Arc B, and Xe3 */
    CLASS_APPLE,         /* 32 lanes, 32 KiB of shared memory */
    CLASS_ADRENO,        /* 64 or 128 lanes, 32 KiB of shared memory, few registers */
    CLASS_MALI,          /* 4 to 16 lanes, shared memory that is a cache's */
    CLASS_NVIDIA,        /* of an unknown generation */
    CLASS_NVIDIA_PASCAL, /* and older ones */
    CLASS_NVIDIA_TURING, /* and Volta */
    CLASS_NVIDIA_AMPERE,
    CLASS_NVIDIA_ADA,
    CLASS_NVIDIA_HOPPER,
    CLASS_NVIDIA_BLACKWELL,
    CLASS_COUNT
};

/* By what the limits' identity and the limits say. WHERRY_DEVICE_CLASS, the name of one, takes its place: for tests,
 * and for devices that say too little of themselves. */
enum device_class device_class_of(const struct device_limits *limits);
/* The same, by identity and limits alone. */
enum device_class device_class_read(const struct device_limits *limits);
/* "amd-rdna3", ... */
const char *device_class_name(enum device_class class);
/* "RDNA3", for sentences. */
const char *device_class_text(enum device_class class);
/* CLASS_COUNT: there is none of this name. */
enum device_class device_class_find(const char *name);

#endif
