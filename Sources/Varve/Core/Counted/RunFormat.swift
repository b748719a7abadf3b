/// The entries of the family that has the counts of a counted part. The format is on disk and must never change.
///
/// ```
///  key     01 │ separator      at or before the first key of the run, after the last key of the run before it;
///                              the separator of the first run is empty
///  value   varint              the number of entries of the run
/// ```
/// A run has the entries from its separator up to that of the next run. After a commit, a run that was changed in it
/// has 32 to 128 entries, or fewer where the whole part has fewer. A part without entries has no runs. A varint is
/// little-endian in groups of seven bits, with the high bit set in all but the last byte.
enum RunFormat {
  /// The sizes between which a run stays.
  static let sizes = 32...128
  /// The number of entries with which runs are made.
  static let madeSize = 96
  /// The size above which a run is divided before it is read in the transaction that made it so large.
  static let readSize = 512
  /// The largest number that a count can be. A greater one on disk is damage.
  static let countMaximum = 1 << 48

  private static let mark: UInt8 = 1

  /// Returns the name of the part that has the counts of a part.
  static func partName(of part: String) -> String { part + ".runs" }

  static func key(_ separator: [UInt8]) -> [UInt8] { [mark] + separator }

  /// Returns the range of the runs whose separators are in a range.
  static func range(_ separators: StorageRange) -> StorageRange {
    StorageRange(lower: key(separators.lower), upper: separators.upper.map { key($0) } ?? [mark + 1])
  }

  static func value(_ count: Int) -> [UInt8] {
    var bytes: [UInt8] = []
    var rest = UInt64(count)
    while rest >= 0x80 {
      bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
      rest >>= 7
    }
    bytes.append(UInt8(rest))
    return bytes
  }

  /// Returns the run of an entry, or `nil` if it is damaged.
  static func piece(_ key: RawSpan, _ value: RawSpan) -> RunTree.Piece? {
    guard key.byteCount > 0, unsafe key.unsafeLoad(as: UInt8.self) == mark, (1...7).contains(value.byteCount) else {
      return nil
    }
    var count = 0
    for index in 0..<value.byteCount {
      let byte = unsafe value.unsafeLoad(fromByteOffset: index, as: UInt8.self)
      let isLast = index == value.byteCount - 1
      guard (byte & 0x80 == 0) == isLast else { return nil }
      count |= Int(byte & 0x7F) << (7 * index)
    }
    guard count <= countMaximum else { return nil }
    return RunTree.Piece(separator: key.extracting(1..<key.byteCount).copied, count: count)
  }

  /// Returns a short separator between two keys: a prefix of `next` that is after `last`.
  static func separator(after last: [UInt8], before next: [UInt8]) -> [UInt8] {
    var shared = 0
    while shared < last.count, shared < next.count, last[shared] == next[shared] { shared += 1 }
    return Array(next.prefix(shared + 1))
  }
}

/// Makes runs of the keys of a part, which are added in order.
struct RunMaker {
  private(set) var pieces: [RunTree.Piece] = []
  private var last: [UInt8] = []
  private let size: Int

  /// Creates a maker of runs of a size. The first run begins at a separator.
  init(from separator: [UInt8] = [], size: Int = RunFormat.madeSize) {
    self.size = size
    pieces = [RunTree.Piece(separator: separator, count: 0)]
  }

  /// The number of keys.
  var count: Int { pieces.reduce(0) { $0 + $1.count } }

  mutating func add(_ key: RawSpan) {
    let index = pieces.count - 1
    if pieces[index].count < size {
      pieces[index].count += 1
      // Only the last key of a run is needed.
      if pieces[index].count == size { last = key.copied }
    } else {
      pieces.append(
        RunTree.Piece(separator: RunFormat.separator(after: last, before: key.copied), count: 1))
    }
  }
}
