/// The entries of a table that hold what only readers of old states see, by the sequence at which they are free.
///
/// An entry is hidden if its table has a newer entry of its key or a range tombstone over it. A flush or compaction
/// keeps it only because a snapshot lies between the two. It is free as soon as every reader sees the newer one: a
/// compaction of this table alone then removes it, whatever other tables have.
///
/// An entry that is hidden in other tables only is not counted, nor is one that stays although no snapshot needs it,
/// such as an operand that its operator does not combine. So a table that was rewritten when its entries were free has
/// no free entries, and is not rewritten for them a second time.
///
/// # Format
/// A varint count of groups, and for each group, in ascending order of sequences, three varints: the sequence, the
/// number of entries, the number of bytes of their keys and values.
struct HiddenEntries: Hashable, Sendable {
  /// Entries that are free at one sequence.
  struct Group: Hashable, Sendable {
    /// The lowest oldest sequence of all readers at which the entries are free.
    let sequence: SequenceNumber
    fileprivate(set) var count: UInt64
    /// The number of bytes of keys and values, before compression.
    fileprivate(set) var size: UInt64
  }

  /// The groups, with ascending sequences.
  private(set) var groups: [Group] = []

  /// The maximum number of groups. If there would be more, the smallest one is joined with the one after it, which is
  /// free later.
  static let groupMaximum = 8

  static let none = HiddenEntries()

  var isEmpty: Bool { groups.isEmpty }
  /// The number of bytes of all groups.
  var size: UInt64 { groups.reduce(0) { $0 + $1.size } }
  /// The number of entries of all groups.
  var count: UInt64 { groups.reduce(0) { $0 + $1.count } }

  /// Adds an entry of `size` bytes that is free at `sequence`.
  mutating func add(_ size: UInt64, freeAt sequence: SequenceNumber) {
    var index = groups.count
    while index > 0, groups[index - 1].sequence > sequence { index -= 1 }
    if index > 0, groups[index - 1].sequence == sequence {
      groups[index - 1].count += 1
      groups[index - 1].size += size
      return
    }
    groups.insert(Group(sequence: sequence, count: 1, size: size), at: index)
    if groups.count > Self.groupMaximum { joinSmallest() }
  }

  private mutating func joinSmallest() {
    var smallest = 0
    for index in 1..<(groups.count - 1) where groups[index].size < groups[smallest].size { smallest = index }
    let joined = groups.remove(at: smallest)
    groups[smallest].count += joined.count
    groups[smallest].size += joined.size
  }

  /// Returns the number of bytes that are free if no reader sees a state older than `oldest`.
  func freeSize(at oldest: SequenceNumber) -> UInt64 {
    groups.reduce(0) { $1.sequence <= oldest ? $0 + $1.size : $0 }
  }

  /// Returns the lowest sequence at which at least `size` bytes are free, or `nil` if there are fewer.
  func sequence(freeing size: UInt64) -> SequenceNumber? {
    var free: UInt64 = 0
    for group in groups {
      free += group.size
      if free >= size { return group.sequence }
    }
    return nil
  }

  // MARK: - Coding

  func encode(appendingTo writer: inout ByteWriter) {
    writer.append(varint: UInt64(groups.count))
    for group in groups {
      writer.append(varint: group.sequence.value)
      writer.append(varint: group.count)
      writer.append(varint: group.size)
    }
  }

  init() {}

  /// Reads the groups. Throws `.corruption` if they are not as the format states.
  init(_ field: inout ByteReader) throws(EngineError) {
    let count = try field.count(limit: Self.groupMaximum)
    for _ in 0..<count {
      let sequence = try field.varint()
      guard sequence <= SequenceNumber.maximum.value else {
        throw field.corruption("hidden entries have a sequence above 56 bits")
      }
      if let last = groups.last, last.sequence.value >= sequence {
        throw field.corruption("groups of hidden entries are out of order: \(sequence) follows \(last.sequence)")
      }
      groups.append(
        Group(sequence: SequenceNumber(sequence), count: try Self.amount(&field), size: try Self.amount(&field)))
    }
  }

  /// Reads a number that is limited so that sums over all tables can't overflow.
  private static func amount(_ field: inout ByteReader) throws(EngineError) -> UInt64 {
    let value = try field.varint()
    guard value < 1 << 48 else { throw field.corruption("a size or count of \(value) in hidden entries") }
    return value
  }
}
