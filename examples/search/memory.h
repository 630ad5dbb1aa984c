/* Memory, without which there is nothing to do, and text that a terminal may show. */
#ifndef SEARCH_MEMORY_H
#define SEARCH_MEMORY_H

#include <stddef.h>

/* Ends the program where there was none. */
void *need(void *memory);
/* Memory with room for one item more than `count`, zeroed. */
void *grown(void *memory, size_t count, size_t size);
/* Makes one line of text of it: white space becomes one blank, and what could steer a terminal, or is no UTF-8, "?". */
void harmless(char *text, size_t bytes);
/* Bytes of text that take at most so many columns; *columns says how many they do take. */
size_t fitting(const char *text, size_t most, size_t *columns);

#endif
