// CRC-32C computed by the processor's own instruction. The implementation is chosen once at run time.
//
// The instruction has a latency of three cycles and a throughput of one per cycle, so long inputs go
// through three independent lanes. The lanes are joined by a multiplication modulo the polynomial
// (Gopal et al., "Fast CRC computation for iSCSI polynomial using CRC32 instruction", Intel 2011),
// here by tables for the two lane sizes.

#include "CVarve.h"

#include <pthread.h>
#include <string.h>

#define POLYNOMIAL_REFLECTED 0x82F63B78u
#define LONG_LANE 2048
#define SHORT_LANE 128

static uint32_t slice_table[8][256];
static uint32_t long_shift[4][256];
static uint32_t short_shift[4][256];

typedef uint32_t (*extend_function)(uint32_t, const void *, size_t);
static extend_function chosen_extend;
static const char *chosen_name;
static pthread_once_t once = PTHREAD_ONCE_INIT;

// Fills a table, indexed by the bytes of the checksum register, that gives the register after `length` zero bytes.
static void make_shift_table(uint32_t table[4][256], size_t length) {
  uint32_t bit_effect[32];
  for (int bit = 0; bit < 32; bit++) {
    uint32_t value = 1u << bit;
    for (size_t i = 0; i < length; i++) value = slice_table[0][value & 0xff] ^ (value >> 8);
    bit_effect[bit] = value;
  }
  for (int byte = 0; byte < 4; byte++) {
    for (int value = 0; value < 256; value++) {
      uint32_t effect = 0;
      for (int bit = 0; bit < 8; bit++)
        if (value & (1 << bit)) effect ^= bit_effect[byte * 8 + bit];
      table[byte][value] = effect;
    }
  }
}

static inline uint32_t shift(uint32_t table[4][256], uint32_t crc) {
  return table[0][crc & 0xff] ^ table[1][(crc >> 8) & 0xff] ^ table[2][(crc >> 16) & 0xff] ^ table[3][crc >> 24];
}

static uint32_t extend_by_tables(uint32_t crc, const void *bytes, size_t count) {
  const uint8_t *p = bytes;
  crc = ~crc;
  while (count >= 8) {
    uint64_t word;
    memcpy(&word, p, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    word ^= crc;
    crc = slice_table[7][word & 0xff] ^ slice_table[6][(word >> 8) & 0xff] ^ slice_table[5][(word >> 16) & 0xff] ^
          slice_table[4][(word >> 24) & 0xff] ^ slice_table[3][(word >> 32) & 0xff] ^
          slice_table[2][(word >> 40) & 0xff] ^ slice_table[1][(word >> 48) & 0xff] ^ slice_table[0][word >> 56];
    p += 8;
    count -= 8;
  }
  while (count--) crc = slice_table[0][(crc ^ *p++) & 0xff] ^ (crc >> 8);
  return ~crc;
}

#if defined(__x86_64__)
#include <nmmintrin.h>
#define HARDWARE_NAME "sse4.2"
#define HARDWARE_TARGET __attribute__((target("sse4.2")))
#define CRC_WORD(crc, word) ((uint32_t)_mm_crc32_u64((crc), (word)))
#define CRC_BYTE(crc, byte) _mm_crc32_u8((crc), (byte))
static bool has_hardware(void) { return __builtin_cpu_supports("sse4.2"); }
#elif defined(__aarch64__)
#include <arm_acle.h>
#if defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
static bool has_hardware(void) { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }
#else
static bool has_hardware(void) { return true; }  // every arm64 Darwin machine has it
#endif
#define HARDWARE_NAME "armv8-crc"
#define HARDWARE_TARGET __attribute__((target("crc")))
#define CRC_WORD(crc, word) __crc32cd((crc), (word))
#define CRC_BYTE(crc, byte) __crc32cb((crc), (byte))
#endif

#if defined(HARDWARE_NAME)
static inline uint64_t load_word(const uint8_t *p) {
  uint64_t word;
  memcpy(&word, p, 8);
  return word;
}

// Extends the checksum by three lanes of `lane` bytes each, as often as they fit into the remaining input.
#define EXTEND_BY_LANES(lane, table)                                         \
  while (count >= 3 * (lane)) {                                              \
    uint32_t second = 0, third = 0;                                          \
    for (size_t i = 0; i < (lane); i += 8) {                                 \
      crc = CRC_WORD(crc, load_word(p + i));                                 \
      second = CRC_WORD(second, load_word(p + (lane) + i));                  \
      third = CRC_WORD(third, load_word(p + 2 * (lane) + i));                \
    }                                                                        \
    crc = shift(table, crc) ^ second;                                        \
    crc = shift(table, crc) ^ third;                                         \
    p += 3 * (lane);                                                         \
    count -= 3 * (lane);                                                     \
  }

HARDWARE_TARGET static uint32_t extend_by_hardware(uint32_t crc, const void *bytes, size_t count) {
  const uint8_t *p = bytes;
  crc = ~crc;
  EXTEND_BY_LANES(LONG_LANE, long_shift)
  EXTEND_BY_LANES(SHORT_LANE, short_shift)
  for (; count >= 8; count -= 8, p += 8) crc = CRC_WORD(crc, load_word(p));
  for (; count > 0; count--) crc = CRC_BYTE(crc, *p++);
  return ~crc;
}
#endif

static void prepare(void) {
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; bit++) value = (value >> 1) ^ ((value & 1) ? POLYNOMIAL_REFLECTED : 0);
    slice_table[0][i] = value;
  }
  for (int slice = 1; slice < 8; slice++)
    for (int i = 0; i < 256; i++)
      slice_table[slice][i] = slice_table[0][slice_table[slice - 1][i] & 0xff] ^ (slice_table[slice - 1][i] >> 8);
  make_shift_table(long_shift, LONG_LANE);
  make_shift_table(short_shift, SHORT_LANE);
  chosen_extend = extend_by_tables;
  chosen_name = "portable";
#if defined(HARDWARE_NAME)
  if (has_hardware()) {
    chosen_extend = extend_by_hardware;
    chosen_name = HARDWARE_NAME;
  }
#endif
}

// This runs before `main`, so that the hot path needs no check.
__attribute__((constructor)) static void prepare_at_load(void) { pthread_once(&once, prepare); }

uint32_t cvarve_crc32c_extend(uint32_t crc, const void *bytes, size_t count) {
  return chosen_extend(crc, bytes, count);
}

uint32_t cvarve_crc32c_extend_portable(uint32_t crc, const void *bytes, size_t count) {
  return extend_by_tables(crc, bytes, count);
}

const char *cvarve_crc32c_implementation(void) { return chosen_name; }
