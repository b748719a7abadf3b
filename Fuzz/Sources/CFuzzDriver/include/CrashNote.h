#ifndef CRASH_NOTE_H
#define CRASH_NOTE_H

#include <stdint.h>

/// Where the process ends by a signal, or one execution takes longer than a minute, what ran is printed to
/// the standard error, so that it can be replayed.
void crash_note_install(void);

/// Says which target runs with which seed. The name is kept.
void crash_note_run(const char *target, uint64_t seed);

/// Says which execution begins.
void crash_note_index(uint64_t index);

#endif
