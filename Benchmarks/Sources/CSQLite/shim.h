#include <sqlite3.h>

/* sqlite3_config takes a variable number of arguments, which Swift doesn't call. */
static inline int varve_sqlite_without_statistics(void) {
  return sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}
