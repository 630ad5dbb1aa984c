/* Threads of the command, and a lock that they get in the order in which they came. */
#ifndef WHERRY_TOOLS_THREADS_H
#define WHERRY_TOOLS_THREADS_H

struct task;
/* Runs work(user) in a thread; NULL: the system has none left. */
struct task *task_start(void (*work)(void *user), void *user);
/* Returns when its work has. Accepts NULL. */
void task_join(struct task *task);

/* First come, first served, as in a server's queue: with a plain mutex the thread that gives it back often has it again
 * before one that waits has woken up. */
struct turns;
struct turns *turns_create(void);
void turns_destroy(struct turns *turns); /* accepts NULL */
void turns_take(struct turns *turns);
void turns_give(struct turns *turns);

#endif
