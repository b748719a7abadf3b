public import Varve

/// Something about which the entries of a view, its counts, and its definition disagree: see
/// ``ViewTransaction/verify(limit:)``.
public struct ViewDifference: Hashable, Sendable, CustomStringConvertible {
  /// The kinds of differences.
  public enum Kind: Hashable, Sendable {
    /// The row has a place in a group, and the group has no entry of it there.
    case entryIsMissing
    /// A group has an entry of the row at a place that is not the row's.
    case entryIsExtra
    /// The row is in the view, and does not exist.
    case rowIsMissing
    /// The definition gives the row another place.
    case placeDiffers
    /// A group has another number of rows than the view's counts say.
    case countDiffers
    /// The bytes of an entry can't be read.
    case isDamaged
  }

  /// The kind of the difference.
  public let kind: Kind
  /// The row, or `nil` if the difference concerns none, or its key can't be read.
  public let row: RowKey?
  /// What was found and what was expected.
  public let text: String

  /// The row and what was found and what was expected.
  public var description: String { row.map { "\($0): \(text)" } ?? text }
}

extension ViewTransaction {
  /// Compares everything that the view keeps: the entries of groups with the places of rows, the counts with the
  /// entries, and both with the rows and what the definition says of them. Returns the differences, at most `limit`.
  ///
  /// Throws what the definition throws, except for errors that mean that a row can't be placed. Complexity: some
  /// lookups for each row of the view's collections.
  public func verify(limit: Int = 1_000) throws -> [ViewDifference] {
    var verification = ViewVerification(content, limit: limit)
    try verification.comparePlaces()
    try verification.compareEntries(with: groups(), count: count())
    try verification.compareUnplaced()
    try verification.compareRows()
    return verification.differences
  }
}

/// The comparison of what a view keeps.
private struct ViewVerification<Group: KeyCodable> {
  let content: ViewContent<Group>
  let limit: Int
  var differences: [ViewDifference] = []

  init(_ content: ViewContent<Group>, limit: Int) {
    self.content = content
    self.limit = limit
  }

  private var isFull: Bool { differences.count >= limit }

  private mutating func add(_ kind: ViewDifference.Kind, _ row: [UInt8]?, _ text: String) {
    if isFull { return }
    differences.append(ViewDifference(kind: kind, row: row.flatMap { try? content.rowKey($0) }, text: text))
  }

  /// Compares each place with the entry there, with the row, and with what the definition says.
  mutating func comparePlaces() throws {
    let transaction = try content.context.transaction
    var cursor = try content.places.cursor()
    while !isFull, let (row, place) = try cursor.next() {
      let entry: ViewEntry?
      do { entry = try ViewEntry(place: place) } catch {
        add(.isDamaged, row, "\(error)")
        continue
      }
      if let entry {
        if try content.rows.get(entry.key) != row { add(.entryIsMissing, row, "no group has it at its place") }
      } else if try content.unplaced?.get(row) == nil {
        add(.entryIsMissing, row, "it can't be placed, and is not listed")
      }
      guard let key = try? content.rowKey(row), let found = try transaction.row(key) else {
        add(.rowIsMissing, row, "it is in the view, and does not exist")
        continue
      }
      guard let expected = try content.expected?(found) else { continue }
      let isRight =
        switch expected {
        case .placed(let expected): entry == expected
        case .unplaced: entry == nil
        case .none: false
        }
      if !isRight { add(.placeDiffers, row, "the definition says \(text(expected)), and it has \(text(entry))") }
    }
  }

  private func text(_ placement: ViewPlacement) -> String {
    switch placement {
    case .none: "no group"
    case .placed(let entry): text(entry)
    case .unplaced(let reason): "that it can't be placed (\(reason))"
    }
  }

  private func text(_ entry: ViewEntry?) -> String {
    guard let entry else { return "no place" }
    let group = (try? ViewContent<Group>.group(in: entry.key).group).map { "\($0)" } ?? "that can't be read"
    return "group \(group), position \(entry.key.dropFirst(entry.groupSize).map { String($0, radix: 16) })"
  }

  /// Compares each entry with the row's place, and the counts with the entries.
  mutating func compareEntries(with groups: [(group: Group, count: Int)], count: Int) throws {
    var walked: [(group: Group, count: Int)] = []
    var all = 0
    var cursor = try content.rows.cursor()
    while !isFull, let (key, row) = try cursor.next() {
      all += 1
      let place = try content.places.get(row)
      if try place.flatMap({ try ViewEntry(place: $0) })?.key != key {
        add(.entryIsExtra, row, "a group has it at a place that is not its own")
      }
      do {
        let group = try ViewContent<Group>.group(in: key).group
        if walked.last?.group != group { walked.append((group, 0)) }
        walked[walked.count - 1].count += 1
      } catch {
        add(.isDamaged, row, "its group can't be read: \(error)")
      }
    }
    if isFull { return }
    if all != count { add(.countDiffers, nil, "the view counts \(count) rows, and has \(all)") }
    guard walked.count == groups.count else {
      return add(.countDiffers, nil, "the view counts \(groups.count) groups, and has \(walked.count)")
    }
    for (counted, found) in zip(groups, walked) where counted != found {
      let name = "group \(counted.group)"
      add(.countDiffers, nil, "\(name) counts \(counted.count) rows, and group \(found.group) has \(found.count)")
    }
  }

  /// Compares the list of rows that can't be placed with their places.
  mutating func compareUnplaced() throws {
    guard var cursor = try content.unplaced?.cursor(keysOnly: true) else { return }
    while !isFull, let (row, _) = try cursor.next() {
      if try content.places.get(row) == [] { continue }
      add(.entryIsExtra, row, "it is listed as one that can't be placed, and has a place or none")
    }
  }

  /// Finds rows that the definition places, and that are not in the view.
  mutating func compareRows() throws {
    guard let expected = content.expected, !content.mayMiss, case .only(let names) = content.scope else { return }
    let transaction = try content.context.transaction
    for name in names.sorted() {
      var cursor = try transaction.rows(in: name, after: nil)
      while !isFull, let row = try cursor.next() {
        guard let bytes = try content.rowBytes(row.key), try content.places.get(bytes) == nil else { continue }
        let placement = try expected(row)
        if placement != .none { add(.placeDiffers, bytes, "the definition says \(text(placement)), and it has none") }
      }
    }
  }
}
