/* The account of where a context's time goes. */
#include "base/parts.h"

#include "base/platform.h"

void parts_begin(struct parts *parts)
{
    *parts =
        (struct parts){.thread = thread_number(), .now = PART_REST, .wall = clock_ns(), .processor = processor_ns()};
    parts->processor_before = parts->processor;
}

void parts_update(struct parts *parts)
{
    uint64_t wall = clock_ns(), processor = processor_ns();
    parts->wall_ns[parts->now] += wall - parts->wall;
    parts->processor_ns[parts->now] += processor - parts->processor;
    parts->wall = wall;
    parts->processor = processor;
}

void parts_switch(struct parts *parts, int part)
{
    if (part == parts->now) return;
    parts_update(parts);
    parts->now = part;
}
