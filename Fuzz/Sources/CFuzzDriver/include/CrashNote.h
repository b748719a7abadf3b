#ifndef CRASH_NOTE_H
#define CRASH_NOTE_H

#include <stdint.h>

/// Installs a handler that prints the current execution to standard error if the process ends by a signal, or if one
/// execution takes longer than a minute, so that it can be replayed.
void crash_note_install(void);

/// Sets the name and the seed of the running target. The name is copied.
void crash_note_run(const char *target, uint64_t seed);

/// Sets the index of the execution that begins.
void crash_note_index(uint64_t index);

#endif
