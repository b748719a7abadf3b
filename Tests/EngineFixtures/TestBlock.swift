@testable import VarveEngine

/// Blocks whose bytes follow from their key, so that a pin on the wrong or a freed block shows.
enum TestBlock {
  static func memory(_ key: BlockKey, _ count: Int) -> BlockMemory {
    guard let memory = try? BlockMemory.allocate(count) else { fatalError("no memory for a block of \(count) bytes") }
    unsafe memory.buffer.initializeMemory(as: UInt8.self, repeating: byte(key))
    return memory
  }

  static func byte(_ key: BlockKey) -> UInt8 { UInt8(truncatingIfNeeded: key.cacheHash >> 17) }

  /// Every 61st byte and the last one.
  static func isIntact(_ view: ByteView, _ key: BlockKey) -> Bool {
    let byte = byte(key)
    for index in stride(from: 0, to: view.count, by: 61) where view[index] != byte { return false }
    return view.isEmpty || view[view.count - 1] == byte
  }
}
