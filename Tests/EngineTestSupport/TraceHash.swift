/// A running hash of events: the same run gives the same value on every machine.
struct TraceHash: Sendable {
  private(set) var value: UInt64 = 0x9e37_79b9_7f4a_7c15

  mutating func add(_ number: UInt64) {
    var mixed = (value ^ number) &* 0xff51_afd7_ed55_8ccd
    mixed ^= mixed >> 32
    value = mixed &+ 0x9e37_79b9_7f4a_7c15
  }

  mutating func add(_ text: String) {
    var text = text
    text.withUTF8 { unsafe add(UnsafeRawBufferPointer($0)) }
  }

  mutating func add(_ bytes: UnsafeRawBufferPointer) {
    add(UInt64(bytes.count))
    var index = 0
    while index + 8 <= bytes.count {
      add(unsafe UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)))
      index += 8
    }
    var rest: UInt64 = 0
    while index < bytes.count {
      rest = rest << 8 | UInt64(unsafe bytes[index])
      index += 1
    }
    add(rest)
  }
}
