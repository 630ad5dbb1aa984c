/* A file in memory, which another process of the host opens by this one's number: it has no name that could be left
 * behind, and goes with the last process that has it. */
#define _GNU_SOURCE
#include "mpi/shared.h"

#include <stdio.h>
#include <string.h>

#ifdef __linux__
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

#include "system.h"

void shared_close(struct shared_memory *shared)
{
#ifdef __linux__
    if (shared->memory) munmap(shared->memory, shared->bytes);
    if (shared->file >= 0) close(shared->file);
#endif
    *shared = (struct shared_memory){.file = -1};
}

#ifdef __linux__

/* Of the running system: names of hosts may be the same. */
static bool host_name(char name[SHARED_NAME])
{
    char boot[64] = "", host[100] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    const bool read = file && fgets(boot, sizeof boot, file);
    if (file) fclose(file);
    if (!read || gethostname(host, sizeof host - 1)) return false;
    snprintf(name, SHARED_NAME, "%s %s", host, boot);
    return true;
}

static struct shared_memory map(int file, size_t bytes)
{
    struct shared_memory shared = {.bytes = bytes, .file = -1};
    shared.memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (shared.memory == MAP_FAILED) shared.memory = NULL;
    return shared;
}

struct shared_memory shared_make(size_t bytes, struct shared_offer *offer)
{
    struct shared_memory shared = {.file = -1};
    *offer = (struct shared_offer){.bytes = bytes};
    int file = host_name(offer->host) ? memfd_create("wherry", MFD_CLOEXEC) : -1;
    if (file >= 0 && !ftruncate(file, (off_t)bytes)) shared = map(file, bytes);
    shared.file = file;
    if (!shared.memory) {
        shared_close(&shared);
        return shared;
    }
    system_random((unsigned char *)&offer->mark, sizeof offer->mark);
    memcpy(shared.memory, &offer->mark, sizeof offer->mark);
    snprintf(offer->path, sizeof offer->path, "/proc/%lu/fd/%d", system_process(), file);
    return shared;
}

/* Whatever has that number elsewhere is no file of this size with the mark. */
struct shared_memory shared_open(const struct shared_offer *offer)
{
    struct shared_memory shared = {.file = -1};
    struct stat stat;
    char host[SHARED_NAME] = "";
    if (!*offer->path || !host_name(host) || strcmp(host, offer->host)) return shared;
    int file = open(offer->path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return shared;
    if (!fstat(file, &stat) && S_ISREG(stat.st_mode) && (uint64_t)stat.st_size == offer->bytes)
        shared = map(file, (size_t)offer->bytes);
    close(file);
    if (shared.memory && memcmp(shared.memory, &offer->mark, sizeof offer->mark)) shared_close(&shared);
    return shared;
}

#else

struct shared_memory shared_make(size_t bytes, struct shared_offer *offer)
{
    *offer = (struct shared_offer){.bytes = bytes};
    return (struct shared_memory){.file = -1};
}

struct shared_memory shared_open(const struct shared_offer *offer)
{
    (void)offer;
    return (struct shared_memory){.file = -1};
}

#endif
