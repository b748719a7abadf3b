@testable import VarveEngine

/// A reader with a fault: it reads one byte too far on both sides.
enum FuzzProbe {
  @unsafe
  static func readOutside(_ bytes: [UInt8], in memory: GuardedMemory) {
    let view = memory.copyIn(bytes)
    let before = unsafe (view.base - 1).load(as: UInt8.self)
    let later = unsafe (view.base + view.count).load(as: UInt8.self)
    print(before, later)
  }
}
