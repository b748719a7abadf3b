#include "CVarve.h"

static _Thread_local void *slot;

void *cvarve_thread_slot(void) { return slot; }

void cvarve_set_thread_slot(void *value) { slot = value; }
