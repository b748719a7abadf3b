/// What the database must hold after a number of whole batches: for each key the write that it is of.
///
/// It lives in the parent process. The engine and the writing process never see it.
struct Model {
  private static let absent: Int32 = -1
  private let workload: Workload
  /// By key: the number of the last write, or `absent`.
  private var lastWrites: [Int32]
  /// How many batches the model has seen.
  private(set) var batchCount = 0

  init(_ workload: Workload) {
    self.workload = workload
    lastWrites = Array(repeating: Self.absent, count: workload.keyCount)
  }

  /// Advances to the state after a number of batches.
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

  /// The value that a key must have; nil: it must be absent.
  func value(_ keyIndex: Int) -> [UInt8]? {
    let last = lastWrites[keyIndex]
    return last == Self.absent ? nil : workload.value(Int(last))
  }
}
