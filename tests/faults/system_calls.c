/* System calls of the C library, its stdio's too, come to a handler of SIGSYS by a seccomp filter on the addresses that
 * they are made from. The handler makes them itself, from here, unless they are to fail. Linux on x86-64. */
#define _GNU_SOURCE
#include "faults.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum target { ON_PATH, ON_PATH_AT, ON_FILE, ON_MAP };

static const struct watched {
    short number;
    unsigned char class_, target;
    const char *name;
} watched[] = {
    {SYS_open, FAULT_OPEN, ON_PATH, "open"},
    {SYS_openat, FAULT_OPEN, ON_PATH_AT, "openat"},
    {SYS_read, FAULT_READ, ON_FILE, "read"},
    {SYS_pread64, FAULT_READ, ON_FILE, "pread"},
    {SYS_write, FAULT_WRITE, ON_FILE, "write"},
    {SYS_pwrite64, FAULT_WRITE, ON_FILE, "pwrite"},
    {SYS_fsync, FAULT_SYNC, ON_FILE, "fsync"},
    {SYS_fdatasync, FAULT_SYNC, ON_FILE, "fdatasync"},
    {SYS_rename, FAULT_RENAME, ON_PATH, "rename"},
    {SYS_renameat, FAULT_RENAME, ON_PATH_AT, "renameat"},
    {SYS_renameat2, FAULT_RENAME, ON_PATH_AT, "renameat2"},
    {SYS_stat, FAULT_STAT, ON_PATH, "stat"},
    {SYS_lstat, FAULT_STAT, ON_PATH, "lstat"},
    {SYS_fstat, FAULT_STAT, ON_FILE, "fstat"},
    {SYS_newfstatat, FAULT_STAT, ON_PATH_AT, "fstatat"},
    {SYS_statx, FAULT_STAT, ON_PATH_AT, "statx"},
    {SYS_access, FAULT_STAT, ON_PATH, "access"},
    {SYS_faccessat, FAULT_STAT, ON_PATH_AT, "faccessat"},
    {SYS_readlink, FAULT_STAT, ON_PATH, "readlink"},
    {SYS_readlinkat, FAULT_STAT, ON_PATH_AT, "readlinkat"},
    {SYS_close, FAULT_CLOSE, ON_FILE, "close"},
    {SYS_mmap, FAULT_MAP, ON_MAP, "mmap"},
    {SYS_mkdir, FAULT_FOLDER, ON_PATH, "mkdir"},
    {SYS_mkdirat, FAULT_FOLDER, ON_PATH_AT, "mkdirat"},
    {SYS_chmod, FAULT_OTHER, ON_PATH, "chmod"},
    {SYS_fchmod, FAULT_OTHER, ON_FILE, "fchmod"},
    {SYS_fchmodat, FAULT_OTHER, ON_PATH_AT, "fchmodat"},
    {SYS_ftruncate, FAULT_OTHER, ON_FILE, "ftruncate"},
    {SYS_lseek, FAULT_OTHER, ON_FILE, "lseek"},
    {SYS_flock, FAULT_OTHER, ON_FILE, "flock"},
};

enum { WATCHED = sizeof watched / sizeof *watched, MAX_FILES = 1024 };

static char folder[1024];
static bool ours[MAX_FILES] = {[0] = true, [1] = true}; /* open files under the folder, standard input and output */

static long system_call(long number, const long a[6])
{
    register long r10 __asm__("r10") = a[3];
    register long r8 __asm__("r8") = a[4];
    register long r9 __asm__("r9") = a[5];
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

static bool file_ours(long file) { return file >= 0 && file < MAX_FILES && ours[file]; }

static bool path_ours(const char *path)
{
    size_t length = strlen(folder);
    return path && !strncmp(path, folder, length) && (path[length] == '/' || !path[length]);
}

/* O_TMPFILE: a spool that has no path. A path of "" is about the file that stands before it. */
static bool call_ours(const struct watched *w, const long a[6])
{
    switch ((enum target)w->target) {
    case ON_PATH:
        return path_ours((const char *)a[0]);
    case ON_PATH_AT:
        if (w->number == SYS_openat && (a[2] & O_TMPFILE) == O_TMPFILE) return true;
        if (a[1] && !*(const char *)a[1]) return file_ours(a[0]);
        return path_ours((const char *)a[1]) || (a[1] && *(const char *)a[1] != '/' && file_ours(a[0]));
    case ON_FILE:
        return file_ours(a[0]);
    case ON_MAP:
        return !(a[3] & 0x20 /* MAP_ANONYMOUS */) && file_ours(a[4]);
    }
    return false;
}

static long call(const struct watched *w, long a[6])
{
    bool mine = call_ours(w, a), fails = mine && fault_hit((enum fault_class)w->class_, w->name);
    if (fails && fault_short()) {
        if (a[2] > 1) a[2] /= 2;
    } else if (fails && w->class_ != FAULT_CLOSE) {
        return -fault_errno();
    }
    long result = system_call(w->number, a);
    if (w->class_ == FAULT_OPEN && result >= 0 && result < MAX_FILES) ours[result] = mine;
    if (w->class_ == FAULT_CLOSE && a[0] >= 0 && a[0] < MAX_FILES) ours[a[0]] = false;
    return fails && w->class_ == FAULT_CLOSE ? -fault_errno() : result; /* a close that fails has closed */
}

static void handle(int number, siginfo_t *info, void *context)
{
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    long a[6] = {r[REG_RDI], r[REG_RSI], r[REG_RDX], r[REG_R10], r[REG_R8], r[REG_R9]};
    (void)number;
    for (size_t i = 0; i < WATCHED; i++) {
        if (watched[i].number != info->si_syscall) continue;
        r[REG_RAX] = call(&watched[i], a);
        return;
    }
    r[REG_RAX] = system_call(info->si_syscall, a);
}

static int find_c(struct dl_phdr_info *info, size_t size, void *user)
{
    uintptr_t *range = user;
    (void)size;
    if (!strstr(info->dlpi_name, "/libc.so")) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X)) continue;
        range[0] = info->dlpi_addr + p->p_vaddr;
        range[1] = range[0] + p->p_memsz;
    }
    return 1;
}

static bool trapping; /* SIGSYS is ours */

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "faults: %s\n", what);
    _exit(99);
}

/* The filter: allow but what is made by this architecture's calls, from addresses of `c`, and is watched. */
static int filter_make(const uintptr_t c[2], struct sock_filter *filter)
{
    enum { ALLOW = 8 + WATCHED, TRAP };
    int n = 0;
#define LOAD(member) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(member))
#define JUMP(how, value, yes, no)                                                                                      \
    BPF_JUMP(BPF_JMP | how | BPF_K, (uint32_t)(value), (uint8_t)((yes) ? (yes)-n - 1 : 0),                             \
             (uint8_t)((no) ? (no)-n - 1 : 0))
#define ADD(...) filter[n] = (struct sock_filter)__VA_ARGS__, n++
    const uint32_t address = offsetof(struct seccomp_data, instruction_pointer);
    ADD(LOAD(offsetof(struct seccomp_data, arch)));
    ADD(JUMP(BPF_JEQ, AUDIT_ARCH_X86_64, 0, ALLOW));
    ADD(LOAD(address + 4));
    ADD(JUMP(BPF_JEQ, c[0] >> 32, 0, ALLOW));
    ADD(LOAD(address));
    ADD(JUMP(BPF_JGE, c[0], 0, ALLOW));
    ADD(JUMP(BPF_JGE, c[1], ALLOW, 0));
    ADD(LOAD(offsetof(struct seccomp_data, nr)));
    for (int i = 0; i < WATCHED; i++) ADD(JUMP(BPF_JEQ, watched[i].number, TRAP, 0));
    ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP));
#undef LOAD
#undef JUMP
#undef ADD
    return n;
}

void fault_trap(const char *under)
{
    struct sock_filter filter[WATCHED + 16];
    uintptr_t c[2] = {0, 0};
    snprintf(folder, sizeof folder, "%s", under);
    dl_iterate_phdr(find_c, c);
    /* The upper halves of addresses are compared once. */
    if (!c[0] || c[0] >> 32 != c[1] >> 32) give_up("the C library lies across 4 GB; try again");
    struct sock_fprog program = {(unsigned short)filter_make(c, filter), filter};
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
    if (sigaction(SIGSYS, &action, NULL)) give_up("no handler of SIGSYS");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        give_up("seccomp filters are not allowed here");
    trapping = true;
}

/* Others want our signal. LLVM takes it for a crash, and blocks all signals while it closes a file: a system call that
 * traps then ends the process. */

int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
    static __typeof__(&sigaction) next;
    if (!next) next = (__typeof__(&sigaction))dlsym(RTLD_NEXT, "sigaction");
    if (number == SIGSYS && action && trapping) action = NULL;
    return next(number, action, old);
}

static const sigset_t *without_ours(const sigset_t *set, int how, sigset_t *copy)
{
    if (!set || how == SIG_UNBLOCK) return set;
    *copy = *set;
    sigdelset(copy, SIGSYS);
    return copy;
}

int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    static __typeof__(&pthread_sigmask) next;
    sigset_t copy;
    if (!next) next = (__typeof__(&pthread_sigmask))dlsym(RTLD_NEXT, "pthread_sigmask");
    return next(how, without_ours(set, how, &copy), old);
}

int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    static __typeof__(&sigprocmask) next;
    sigset_t copy;
    if (!next) next = (__typeof__(&sigprocmask))dlsym(RTLD_NEXT, "sigprocmask");
    return next(how, without_ours(set, how, &copy), old);
}
