#include "CVarve.h"

static _Thread_local void *slot;

void *cvarve_thread_slot(void) { return slot; }

void cvarve_set_thread_slot(void *value) { slot = value; }

static _Thread_local uint8_t file_read_ban;

uint8_t cvarve_file_read_ban(void) { return file_read_ban; }

void cvarve_set_file_read_ban(uint8_t value) { file_read_ban = value; }

static _Thread_local bool ends_if_cancelled;

bool cvarve_ends_if_cancelled(void) { return ends_if_cancelled; }

void cvarve_set_ends_if_cancelled(bool value) { ends_if_cancelled = value; }
