/* What the compiler calls for each load and store of the kernels (-fsanitize=thread), instead of its own library. */
#include "counted/touch.h"

#include <string.h>

#define LOAD(bytes)                                                                                                    \
    void __tsan_read##bytes(const void *at);                                                                           \
    void __tsan_read##bytes(const void *at) { touch(at, bytes, false); }
#define STORE(bytes)                                                                                                   \
    void __tsan_write##bytes(const void *at);                                                                          \
    void __tsan_write##bytes(const void *at) { touch(at, bytes, true); }
LOAD(1)
LOAD(2)
LOAD(4)
LOAD(8)
LOAD(16)
STORE(1)
STORE(2)
STORE(4)
STORE(8)
STORE(16)

void __tsan_read_range(const void *at, size_t bytes);
void __tsan_read_range(const void *at, size_t bytes) { touch(at, bytes, false); }
void __tsan_write_range(const void *at, size_t bytes);
void __tsan_write_range(const void *at, size_t bytes) { touch(at, bytes, true); }
void __tsan_func_entry(void *caller);
void __tsan_func_entry(void *caller) { (void)caller; }
void __tsan_func_exit(void);
void __tsan_func_exit(void) {}
void __tsan_init(void);
void __tsan_init(void) {}

void *counted_copy(void *to, const void *from, size_t bytes);
void *counted_copy(void *to, const void *from, size_t bytes)
{
    touch(from, bytes, false);
    touch(to, bytes, true);
    return memcpy(to, from, bytes);
}

void *counted_fill(void *to, int byte, size_t bytes);
void *counted_fill(void *to, int byte, size_t bytes)
{
    touch(to, bytes, true);
    return memset(to, byte, bytes);
}
