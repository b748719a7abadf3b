#include "CrashNote.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char run_target[64] = "none";
static volatile uint64_t run_seed;
static volatile uint64_t run_index;

static size_t digits(char *out, uint64_t value) {
  char reversed[24];
  size_t count = 0;
  do {
    reversed[count++] = (char)('0' + value % 10);
    value /= 10;
  } while (value > 0);
  for (size_t i = 0; i < count; i++) out[i] = reversed[count - 1 - i];
  return count;
}

// Prints the note, using only functions that a signal handler may call.
static void print_note(int number) {
  char text[256];
  size_t size = 0;
  const char *begin = number == SIGALRM ? "\nno end of: varve-fuzz " : "\nstopped in: varve-fuzz ";
  memcpy(text, begin, strlen(begin));
  size += strlen(begin);
  memcpy(text + size, run_target, strlen(run_target));
  size += strlen(run_target);
  memcpy(text + size, " --seed ", 8);
  size += 8;
  size += digits(text + size, run_seed);
  memcpy(text + size, " --replay ", 10);
  size += 10;
  size += digits(text + size, run_index);
  text[size++] = '\n';
  ssize_t written = write(STDERR_FILENO, text, size);
  (void)written;
  signal(number, SIG_DFL);
  raise(number);
}

void crash_note_install(void) {
  // Flush each line at once, also into a file.
  setvbuf(stdout, NULL, _IOLBF, 0);
  static const int numbers[] = {SIGILL, SIGTRAP, SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGALRM};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) signal(numbers[i], print_note);
}

void crash_note_run(const char *target, uint64_t seed) {
  strncpy(run_target, target, sizeof run_target - 1);
  run_seed = seed;
}

void crash_note_index(uint64_t index) {
  run_index = index;
  if (index % 256 == 0) alarm(60);
}
