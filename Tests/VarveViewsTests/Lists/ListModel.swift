import Varve
import VarveViews

/// What a list shows, as a user interface would keep it: the sections with their rows.
struct ShownList: Equatable, CustomStringConvertible {
  struct Section: Equatable {
    var group: String?
    var ids: [Int]
  }
  var sections: [Section] = []

  init() {}

  /// Reads everything that a mapping shows.
  init(_ mapping: ListMapping<ShelfSource>) throws {
    for (number, section) in mapping.sections.enumerated() {
      sections.append(Section(group: section.group, ids: try mapping.ids(inSection: number, at: 0..<section.count)))
    }
  }

  /// Applies changes as batch updates do. `new` is what a newly inserted row or section shows.
  mutating func apply(_ changes: ListChanges<String>, from new: ShownList) {
    if changes.isReload {
      self = new
      return
    }
    let leaving = (changes.deletions + changes.moves.map(\.from)).sorted(by: >)
    for index in leaving { sections[index.section].ids.remove(at: index.offset) }
    for number in changes.sectionDeletions { sections.remove(at: number) }
    for section in changes.sectionInsertions {
      sections.insert(Section(group: section.group, ids: new.sections[section.index].ids), at: section.index)
    }
    for index in (changes.insertions + changes.moves.map(\.to)).sorted() {
      sections[index.section].ids.insert(new.sections[index.section].ids[index.offset], at: index.offset)
    }
  }

  func id(_ index: ListIndex) -> Int { sections[index.section].ids[index.offset] }
  var description: String {
    sections.map { "\($0.group ?? "*"):\($0.ids.map(String.init).joined(separator: ","))" }.joined(separator: " ")
  }
}

extension ListChanges<String> {
  /// The changes as text: sections, deletions, insertions, moves and updates.
  var text: String {
    if isReload { return "reload" }
    var parts = sectionDeletions.map { "-s\($0)" } + sectionInsertions.map { "+s\($0.index)" }
    parts += deletions.map { "-\($0)" } + insertions.map { "+\($0)" } + moves.map { "\($0.from)>\($0.to)" }
    parts += updates.map { $0.flags == .dependency ? "~\($0.new)" : "*\($0.new)" }
    return parts.joined(separator: " ")
  }
}

/// A database with a shelf.
struct ShelfCase {
  let database: Database
  let source: ShelfSource

  init(_ database: Database, _ shelf: Shelf = Shelf()) throws {
    self.database = database
    source = ShelfSource(database: database, shelf: try Self.register(database, shelf))
  }

  init(feed: FeedOptions? = FeedOptions()) throws {
    var options = DatabaseOptions()
    options.feed = feed
    try self.init(try Self.memory(options))
  }

  private static func memory(_ options: DatabaseOptions) throws -> Database { try Database.inMemory(options: options) }
  private static func register(_ database: Database, _ shelf: Shelf) throws -> ExtensionHandle<Shelf> {
    let handle = try database.register(shelf, as: "shelf")
    try database.waitUntilReady(handle)
    return handle
  }

  /// Changes items in one commit.
  func write(_ body: (WriteTransaction) throws -> Void) throws { try database.write(body) }
  func set(_ items: Item...) throws { try set(items) }
  func set(_ items: [Item]) throws {
    try write { tx in for item in items { try tx.set(item, key: item.id, in: "items") } }
  }
  func remove(_ ids: Int...) throws { try write { tx in for id in ids { try tx.remove(key: id, in: "items") } } }

  /// Fills groups: the items of a group have the ids from a number on, and the same ranks.
  func fill(_ groups: [(String, Range<Int>)]) throws {
    try set(groups.flatMap { group, ids in ids.map { Item(id: $0, group: group, rank: $0) } })
  }
}

/// A list that is kept by changes, and compared with what its mapping shows after each step.
struct FollowedList {
  var mapping: ListMapping<ShelfSource>
  let connection: Connection
  var shown = ShownList()
  /// The items that commits have changed since the last step, if a test says so.
  var touched: Set<Int>?
  /// The changes of the last step.
  var changes: ListChanges<String>

  init(
    _ shelf: ShelfCase, _ sections: ListSections<String> = .all, where keeps: (@Sendable (Item) -> Bool)? = nil
  ) throws {
    mapping = ListMapping(shelf.source, sections: sections, where: keeps)
    connection = shelf.database.connection()
    changes = try mapping.advance(with: connection)
    shown = try ShownList(mapping)
  }

  /// Moves to the present, applies the changes, and returns them as text, or what is wrong with them.
  mutating func step() throws -> String {
    let changes = try mapping.advance(with: connection)
    return try apply(changes)
  }

  mutating func apply(_ changes: ListChanges<String>) throws -> String {
    self.changes = changes
    let new = try ShownList(mapping)
    let old = shown
    shown.apply(changes, from: new)
    for update in changes.updates where old.id(update.old) != new.id(update.new) { return "wrong update \(update)" }
    if shown != new { return "\(shown) instead of \(new) after \(changes.text)" }
    if let wrong = wrongUpdate(old, new) { return wrong }
    return changes.text
  }

  /// Returns what is wrong with the rows that are reported as changed: rows that stay and were changed are updated or
  /// moved, and no other ones.
  private func wrongUpdate(_ old: ShownList, _ new: ShownList) -> String? {
    guard let touched, !changes.isReload else { return nil }
    let reported = changes.updates.filter { $0.flags != .dependency }.map { new.id($0.new) }
    let moved = changes.moves.map { new.id($0.to) }
    if Set(reported + moved).count != reported.count + moved.count { return "wrong: a row is reported twice" }
    if !Set(reported + moved).isSubset(of: touched) { return "wrong: \(reported) \(moved) of \(touched.sorted())" }
    let (gone, come) = (Set(changes.sectionDeletions), Set(changes.sectionInsertions.map(\.index)))
    func rows(_ list: ShownList, _ left: Set<Int>) -> Set<Int> {
      Set(list.sections.enumerated().filter { !left.contains($0.offset) }.flatMap(\.element.ids))
    }
    let stayed = rows(old, gone).intersection(rows(new, come)).intersection(touched)
    return stayed == Set(reported + moved) ? nil : "wrong: \(stayed) changed, and not \(reported) \(moved)"
  }
}
