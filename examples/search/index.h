/* What a folder's text files have in them: passages, and a vector of each. Kept in one file of the folder. */
#ifndef SEARCH_INDEX_H
#define SEARCH_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INDEX_FILE ".search-index"

struct passage {
    uint64_t offset; /* in its file */
    uint32_t bytes, line;
};

struct entry {                    /* of a file */
    char *path;                   /* below the folder */
    int64_t seconds, nanoseconds; /* when it was written last */
    uint64_t size;
    uint32_t count, done; /* passages, and those of them that have vectors; all: the entry can be searched */
    struct passage *passages;
    float *vectors; /* [count][dimensions], each of length 1 */
    bool read;      /* its passages are known: an entry that is not read is new, or its file was changed */
    bool there;     /* index_scan saw the file */
};

struct index {
    char *folder;
    char model[128];     /* whose vectors they are */
    uint32_t dimensions; /* of a vector */
    struct entry *entries;
    size_t count;
};

struct found {
    size_t entry;
    uint32_t passage;
    float score; /* cosine */
};

/* Reads the folder's index where there is one for this model. One that is damaged, or of another model, is as good as
 * none: *why then says why. Without memory these end the program. */
void index_open(struct index *index, const char *folder, const char *model, uint32_t dimensions, const char **why);
void index_close(struct index *index);
/* Looks for new, changed and removed files. False: the folder can't be read, errno says why. */
bool index_scan(struct index *index);
/* Reads a file and divides it into passages, with room for their vectors. The text, which the caller frees; NULL: it is
 * gone, or no text, and the entry has no passages. */
char *index_read(struct index *index, size_t entry);
/* Writes all entries that are done: under another name, synced, renamed, so that there is always a whole one. False:
 * errno says why. */
bool index_save(const struct index *index);
/* The best `most` passages, best first; how many there are. */
size_t index_search(const struct index *index, const float *query, struct found *found, size_t most);
/* Where a passage is, "path:line", as any terminal may show it. */
void index_place(const struct index *index, const struct found *found, char *text, size_t size);
/* A passage's text as it is in its file now, in one line that any terminal may show; "" where it is gone. */
void index_text(const struct index *index, const struct found *found, char *text, size_t size);

#endif
