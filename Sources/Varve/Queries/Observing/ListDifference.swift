/// The difference between two lists of distinct keys: the offsets that are removed from the first list, and those that
/// are then inserted to make it the second one.
///
/// A key that has not changed keeps its position: it is never removed and inserted again, however many others have
/// moved around it. Of the keys that have changed, as many keep theirs as possible.
///
/// # Algorithm
/// Unchanged keys have the same order in both lists, and divide them into segments. A changed key can keep its position
/// only if it is in the same segment in both lists; of these, a longest increasing subsequence of the old offsets does.
///
/// Complexity: O(n + c log c) for n keys, of which c have changed.
@_spi(Extensions) public struct ListDifference: Sendable {
  /// The offsets in the first list to remove, in descending order.
  public private(set) var removals: [Int] = []
  /// The offsets in the second list to insert, in ascending order.
  public private(set) var insertions: [Int] = []
  /// The offsets in the first list of the keys that the second one lacks, in ascending order.
  public private(set) var left: [Int] = []
  /// The offsets in the second list of the keys that the first one lacks, in ascending order.
  public private(set) var came: [Int] = []

  /// Whether both lists are the same.
  public var isEmpty: Bool { removals.isEmpty && insertions.isEmpty }

  /// Compares two lists of any keys. `hasChanged` returns whether a key that is in both may have another position among
  /// the others.
  public init<Key: Hashable>(from before: [Key], to after: [Key], hasChanged: (Key) -> Bool) {
    let offsets = Dictionary(before.enumerated().map { ($1, $0) }) { first, _ in first }
    self.init(from: before.count, to: after.map { offsets[$0] }) { hasChanged(after[$0]) }
  }

  /// Compares two lists. `hasChanged` returns whether a key that is in both may have another position among the others.
  init(from before: [[UInt8]], to after: [[UInt8]], _ hasChanged: ([UInt8]) -> Bool) {
    var offsets = ByteTable<Int>()
    offsets.reserveCapacity(before.count)
    for (offset, key) in before.enumerated() { offsets.set(offset, for: key) }
    self.init(from: before.count, to: after.map { offsets[$0] }) { hasChanged(after[$0]) }
  }

  /// Compares a list of `count` keys with one whose keys had the offsets `old` in the first list. `hasChanged` receives
  /// an offset in the second list.
  private init(from count: Int, to old: [Int?], _ hasChanged: (Int) -> Bool) {
    var kept = Self.kept(old, hasChanged)
    // Unchanged keys in another order mean that they have changed without notice.
    if kept == nil { kept = Self.kept(old) { _ in true } }
    let keptNew = kept ?? []

    var (isKept, isFound) = ([Bool](repeating: false, count: count), [Bool](repeating: false, count: count))
    for offset in old { if let offset { isFound[offset] = true } }
    var next = keptNew[...]
    for offset in old.indices {
      if next.first == offset {
        next.removeFirst()
        if let old = old[offset] { isKept[old] = true }
        continue
      }
      insertions.append(offset)
      if old[offset] == nil { came.append(offset) }
    }
    removals = (0..<count).reversed().filter { !isKept[$0] }
    left = (0..<count).filter { !isFound[$0] }
  }

  /// Returns the offsets in the second list of the keys that keep their positions, in ascending order, or nil if
  /// unchanged keys have changed their order. `old` are the offsets in the first list.
  private static func kept(_ old: [Int?], _ hasChanged: (Int) -> Bool) -> [Int]? {
    var kept: [Int] = []
    /// The old offset of the last unchanged key, and the changed keys since.
    var start = -1
    var segment: [(old: Int, new: Int)] = []
    func end(_ limit: Int) {
      kept += longestIncreasing(segment.filter { $0.old < limit })
      segment.removeAll(keepingCapacity: true)
    }
    for (new, old) in old.enumerated() {
      guard let old else { continue }
      if hasChanged(new) {
        if old > start { segment.append((old, new)) }
        continue
      }
      guard old > start else { return nil }
      end(old)
      kept.append(new)
      start = old
    }
    end(.max)
    return kept
  }

  /// Returns the new offsets of a longest subsequence whose old offsets increase. Complexity: O(n log n).
  public static func longestIncreasing(_ list: [(old: Int, new: Int)]) -> [Int] {
    if list.count < 2 { return list.map(\.new) }
    // For each length, the position of the smallest last element of an increasing subsequence of that length.
    var ends: [Int] = []
    var previous = [Int](repeating: -1, count: list.count)
    for (position, element) in list.enumerated() {
      var (low, high) = (0, ends.count)
      while low < high {
        let middle = (low + high) / 2
        if list[ends[middle]].old < element.old { low = middle + 1 } else { high = middle }
      }
      if low > 0 { previous[position] = ends[low - 1] }
      if low == ends.count { ends.append(position) } else { ends[low] = position }
    }
    var found: [Int] = []
    var position = ends.last ?? -1
    while position >= 0 {
      found.append(list[position].new)
      position = previous[position]
    }
    return found.reversed()
  }
}
