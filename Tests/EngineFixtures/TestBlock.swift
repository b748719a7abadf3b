@testable import VarveEngine

/// Blocks whose bytes are derived from their key, so that a pin of the wrong or of a freed block is detected.
enum TestBlock {
  static func memory(_ key: BlockKey, _ count: Int) -> BlockMemory {
    guard let memory = try? BlockMemory.allocate(count) else { fatalError("no memory for a block of \(count) bytes") }
    unsafe memory.buffer.initializeMemory(as: UInt8.self, repeating: byte(key))
    return memory
  }

  static func byte(_ key: BlockKey) -> UInt8 { UInt8(truncatingIfNeeded: key.cacheHash >> 17) }

  /// Returns whether every 61st byte and the last byte are those of the key.
  static func isIntact(_ view: ByteView, _ key: BlockKey) -> Bool {
    let byte = byte(key)
    for index in stride(from: 0, to: view.count, by: 61) where view[index] != byte { return false }
    return view.isEmpty || view[view.count - 1] == byte
  }
}
