internal import Synchronization
internal import Varve

/// For ends that go with their last edge: an edge that was found to keep each, when it was looked at last.
///
/// Where edges go one a transaction, from the first to the last or the other way, what went stands before what is left, and a look from either side goes past all of
/// that. An edge from the middle keeps its end for half of them, and is found again by its key. It is a hint alone: whether it is there is looked at.
///
/// Safe from any thread.
final class EdgeKeepers: Sendable {
  private let keepers = Mutex<[[UInt8]: [UInt8]]>([:])
  private static let countMaximum = 4_096

  /// The key of an entry that begins with a prefix; nil: none is known.
  func keeper(_ prefix: [UInt8], bySource: Bool) -> [UInt8]? { keepers.withLock { $0[[bySource ? 1 : 0] + prefix] } }

  func set(_ keeper: [UInt8], _ prefix: [UInt8], bySource: Bool) {
    keepers.withLock { keepers in
      if keepers.count >= Self.countMaximum { keepers.removeAll() }
      keepers[[bySource ? 1 : 0] + prefix] = keeper
    }
  }

  /// A key about in the middle between two, the first of which comes first.
  static func middle(_ first: [UInt8], _ last: [UInt8]) -> [UInt8] {
    let shared = zip(first, last).prefix { $0 == $1 }.count
    func number(_ key: [UInt8]) -> UInt64 {
      (shared..<(shared + 8)).reduce(0) { $0 << 8 | ($1 < key.count ? UInt64(key[$1]) : 0) }
    }
    let (low, high) = (number(first), number(last))
    let middle = low + (high > low ? (high - low) / 2 : 0)
    return first[..<shared]
      + stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: middle >> UInt64($0)) }
  }
}
