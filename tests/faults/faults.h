/* What the files of the fault library share. It stands in front of the C library, of the OpenCL loader and of the
 * Vulkan loader (LD_PRELOAD), counts their calls by class, and makes one of them fail:
 *
 *   FAULT_CLASS    of which calls; a name of fault_classes
 *   FAULT_AT       which one of them, from 1; without it, or 0, calls are only counted
 *   FAULT_STICKY   if set, all later ones fail as well
 *   FAULT_ERROR    how: a number of errno, or "short" for reads and writes of half the bytes; drivers' calls: which one
 * of the errors that the call may return, from 0 FAULT_UNDER    the folder whose files count (and standard input and
 * output) FAULT_REPORT   file that gets, when the process exits: "calls CLASS N", "left KIND N" for each kind of object
 * of a driver, and "hit WHAT" for a call that failed FAULT_VULKAN   the true Vulkan loader FAULT_ALONE    if set, there
 * are no drivers: all memory that is asked for is ours */
#ifndef WHERRY_TESTS_FAULTS_H
#define WHERRY_TESTS_FAULTS_H

#include <stdbool.h>

enum fault_class {
    FAULT_MEMORY,
    FAULT_THREAD,
    FAULT_OPEN,
    FAULT_READ,
    FAULT_WRITE,
    FAULT_SYNC,
    FAULT_RENAME,
    FAULT_STAT,
    FAULT_CLOSE,
    FAULT_MAP,
    FAULT_FOLDER,
    FAULT_OTHER,
    FAULT_OPENCL,
    FAULT_VULKAN,
    FAULT_CLASSES
};

/* Counts a call; whether it is to fail. `what` names it in the report. Usable in a signal handler. */
bool fault_hit(enum fault_class class_, const char *what);
/* Of a driver's call, one of its `n` errors. */
bool fault_driver(enum fault_class class_, const char *what, const int *errors, int n, int *error);

bool fault_alone(void);
int fault_errno(void);
bool fault_short(void);

/* Objects of drivers that live. */
enum fault_object {
    OBJECT_CL_CONTEXT,
    OBJECT_CL_QUEUE,
    OBJECT_CL_MEM,
    OBJECT_CL_PROGRAM,
    OBJECT_CL_KERNEL,
    OBJECT_CL_EVENT,
    OBJECT_VK_INSTANCE,
    OBJECT_VK_MESSENGER,
    OBJECT_VK_DEVICE,
    OBJECT_VK_BUFFER,
    OBJECT_VK_MEMORY,
    OBJECT_VK_FENCE,
    OBJECT_VK_SHADER,
    OBJECT_VK_PIPELINE,
    OBJECT_VK_PIPELINE_CACHE,
    OBJECT_VK_PIPELINE_LAYOUT,
    OBJECT_VK_SET_LAYOUT,
    OBJECT_VK_DESCRIPTOR_POOL,
    OBJECT_VK_QUERY_POOL,
    OBJECT_VK_COMMAND_POOL,
    OBJECT_KINDS
};

void fault_object_count(enum fault_object kind, int change);

/* From here on system calls of the C library come to us. system_calls.c */
void fault_trap(const char *under);

#endif
