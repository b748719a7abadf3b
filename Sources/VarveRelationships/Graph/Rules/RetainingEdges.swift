internal import Synchronization
internal import Varve

/// For ends that are removed with their last edge, a cache of an edge that was found to keep each end.
///
/// If edges are removed one per transaction, from the first to the last or in reverse, the deleted entries are before
/// the remaining ones, and a search from that side has to skip all of them. An edge from the middle keeps its end for
/// half of the removals, and is found again by its key. The cache is only a hint: the existence of the edge is checked.
///
/// Safe from any thread.
final class RetainingEdges: Sendable {
  private let edges = Mutex<[[UInt8]: [UInt8]]>([:])
  private static let countMaximum = 4_096

  /// Returns the key of an entry that begins with a prefix, or nil if none is known.
  func edge(_ prefix: [UInt8], bySource: Bool) -> [UInt8]? { edges.withLock { $0[[bySource ? 1 : 0] + prefix] } }

  func set(_ edge: [UInt8], _ prefix: [UInt8], bySource: Bool) {
    edges.withLock { edges in
      if edges.count >= Self.countMaximum { edges.removeAll() }
      edges[[bySource ? 1 : 0] + prefix] = edge
    }
  }

  /// Returns a key approximately in the middle between two keys in ascending order.
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
