/* Hopper's own instructions in OpenCL C: NVIDIA's compiler assembles for sm_90, which lacks them, and hands out what it
 * made as text. In a kernel each of them stands after a mark, as a comment; here the text's target becomes sm_90a and
 * the comments instructions, and the driver gets the text again. */
#include "opencl.h"

#include <string.h>

/* A line of inline assembly that begins with this is a comment to every compiler. */
static const char mark[] = "//@";

bool opencl_is_marked(const struct embedded_kernel *source)
{
    const char *at = (const char *)source->data, *end = at + source->size;
    for (; at + sizeof mark - 1 <= end; at++)
        if (!memcmp(at, mark, sizeof mark - 1)) return true;
    return false;
}

/* The text after `what`, inside [at, end); NULL: it is not there. */
static char *text_behind(char *at, char *end, const char *what)
{
    size_t n = strlen(what);
    for (; at + n <= end; at++)
        if (!memcmp(at, what, n)) return at + n;
    return NULL;
}

/* Puts n bytes in front of `at`; returns the new end. */
static char *insert(char *at, char *end, const char *what, size_t n)
{
    memmove(at + n, at, (size_t)(end - at));
    memcpy(at, what, n);
    return end + n;
}

/* Warps may hand registers to each other only where it is known how many all begin with: that takes a work-group's
 * size, which the kernel's attribute gives, and that a multiprocessor may be filled with one. */
static char *fill_alone(char *text, char *end)
{
    static const char line[] = ".minnctapersm 1\n";
    char *size = text_behind(text, end, ".reqntid"), *next = size ? text_behind(size, end, "\n") : NULL;
    return next && text_behind(text, end, "setmaxnreg") ? insert(next, end, line, sizeof line - 1) : end;
}

bool opencl_patch_ptx(char *text, size_t *size)
{
    char *end = text + *size, *target = text_behind(text, end, ".target sm_90");
    size_t marks = 0;
    if (!target || target == end || (*target != ',' && *target != '\n' && *target != ' ')) return false;
    end = fill_alone(text, insert(target, end, "a", 1));
    for (char *at = text; (at = text_behind(at, end, mark)); marks++)
        memset(at - (sizeof mark - 1), ' ', sizeof mark - 1);
    *size = (size_t)(end - text);
    return marks > 0;
}
