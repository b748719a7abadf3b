/// The expected content of the database after a number of whole batches: for each key, the write that its value is
/// from.
///
/// The model exists in the parent process only. The engine and the writing process never use it.
struct Model {
  private static let absent: Int32 = -1
  private let workload: Workload
  /// The number of the last write of each key, or `absent`.
  private var lastWrites: [Int32]
  /// The number of batches that the model includes.
  private(set) var batchCount = 0

  init(_ workload: Workload) {
    self.workload = workload
    lastWrites = Array(repeating: Self.absent, count: workload.keyCount)
  }

  /// Advances the model to the state after a number of batches.
  mutating func advance(to count: Int) {
    for number in batchCount..<count {
      for index in workload.batch(number) {
        let effect = workload.effect(index)
        lastWrites[effect.keyIndex] = effect.deletes ? Self.absent : Int32(index)
      }
    }
    batchCount = count
  }

  var keyCount: Int { lastWrites.count }
  var liveCount: Int { lastWrites.count { $0 != Self.absent } }

  /// Returns the value that a key must have, or `nil` if the key must be absent.
  func value(_ keyIndex: Int) -> [UInt8]? {
    let last = lastWrites[keyIndex]
    return last == Self.absent ? nil : workload.value(Int(last))
  }
}
