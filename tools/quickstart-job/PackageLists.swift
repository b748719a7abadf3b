import Varve
import VarveViews

/// The order in which lists show packages: by section, and in a section by size. A view and a counted index have it.
extension DebianPackage {
  static let sections = AutoView<String?>(version: "1", of: [PackageFormat.collection]) { row in
    let package = try row.object(as: DebianPackage.self)
    return ViewPlace(package.section, package.installedSize, package.id)
  }.named("sections")
}

/// Compares the groups, counts and offsets of the view and of the counted index with a scan of all packages, and lists
/// that follow them with arrays.
struct PackageListChecks {
  /// The number of offsets that are compared.
  static let offsetCount = 1_000

  private let database: Database
  private let store: Store<PackageFormat>
  private let shelf: SectionedQuery<PackageFormat, String?>

  struct Outcome {
    var sectionCount = 0
    var offsetCount = 0
    /// The durations of all reads of the view, and of the counted index.
    var byView = Duration.zero
    var byIndex = Duration.zero
    /// The position of the package that has moved in lists, from the beginning to the end of its section.
    var moved = (section: "", from: 0, to: 0)
  }

  init(_ database: PackageDatabase) {
    self.database = database.database
    store = database.store
    shelf = store.query.sorted(by: \.installedSize).sectioned(by: \.section)
  }

  func run() throws -> Outcome {
    try database.waitUntilReady(DebianPackage.sections)
    var outcome = Outcome()
    let sections = try database.read { tx in
      let sections = try scan(tx)
      try compare(sections, &outcome, tx)
      return sections
    }
    try checkLists(sections, &outcome)
    return outcome
  }

  // MARK: - Groups and offsets

  /// A section with its packages in order.
  struct Section: Equatable {
    var name: String?
    var ids: [PackageID]
  }

  /// Returns all packages as lists show them, by a scan that uses neither the view nor the index.
  private func scan(_ tx: ReadTransaction) throws -> [Section] {
    var sections: [String?: [(size: Int, id: PackageID)]] = [:]
    var cursor = try store.load(..., in: tx)
    while let package = try cursor.next() {
      sections[package.section, default: []].append((package.installedSize ?? -1, package.id))
    }
    return sections.map { name, packages in
      Section(name: name, ids: packages.sorted { $0 < $1 }.map(\.id))
    }.sorted { Self.order($0.name) < Self.order($1.name) }
  }

  /// Returns a value by which sections are in the order of keys: those without a name come first.
  private static func order(_ name: String?) -> String { name.map { "1" + $0 } ?? "0" }

  /// Compares every group with its count, and some offsets of all groups.
  private func compare(_ sections: [Section], _ outcome: inout Outcome, _ tx: ReadTransaction) throws {
    let clock = ContinuousClock()
    let view = try tx[DebianPackage.sections]
    outcome.sectionCount = sections.count
    let expected = sections.map { ($0.name, $0.ids.count) }
    outcome.byView += try clock.measure {
      try require(try view.groups().map { ($0.group, $0.count) }, expected, "the view")
    }
    outcome.byIndex += try clock.measure {
      try require(try shelf.sections(in: tx).map { ($0.value, $0.count) }, expected, "the counted index")
    }
    let all = sections.flatMap { section in
      section.ids.enumerated().map { (name: section.name, offset: $0.offset, id: $0.element) }
    }
    outcome.offsetCount = min(Self.offsetCount, all.count)
    for number in 0..<outcome.offsetCount {
      let (name, offset, id) = all[number * all.count / outcome.offsetCount]
      let row = try store.rowKey(id)
      let what = "package \(id.name)/\(id.version) at offset \(offset) of section \(name ?? "none")"
      outcome.byView += try clock.measure {
        let place = try view.place(of: row)
        guard try view.row(in: name, at: offset) == row, place?.group == name, place?.offset == offset else {
          throw JobError("the view does not have \(what)")
        }
      }
      outcome.byIndex += try clock.measure {
        let place = try shelf.place(of: id, in: tx)
        guard try shelf.ids(of: name, at: offset..<(offset + 1), in: tx) == [id], place?.section == name,
          place?.offset == offset
        else { throw JobError("the counted index does not have \(what)") }
      }
    }
  }

  private func require(_ found: [(String?, Int)], _ expected: [(String?, Int)], _ what: String) throws {
    guard found.elementsEqual(expected, by: ==) else {
      throw JobError("\(what) has \(found.count) sections or counts that differ from the \(expected.count) of a scan")
    }
  }

  // MARK: - Lists

  /// Moves the smallest package of the largest section to its end and back, and follows it in lists.
  private func checkLists(_ sections: [Section], _ outcome: inout Outcome) throws {
    guard let largest = sections.indices.max(by: { sections[$0].ids.count < sections[$1].ids.count }) else { return }
    let (id, count) = (sections[largest].ids[0], sections[largest].ids.count)
    outcome.moved = (sections[largest].name ?? "none", 0, count - 1)
    let source = ViewSource(DebianPackage.sections, in: database) { row in try row.object(as: DebianPackage.self) }
    var byView = try FollowedList(source, database) { try $0.key() }
    var byIndex = try FollowedList(shelf, database) { $0 }
    guard let package = try database.read({ tx in try store.load(id, in: tx) }) else {
      throw JobError("package \(id.name)/\(id.version) is absent")
    }
    var moved = sections
    moved[largest].ids.append(moved[largest].ids.removeFirst())
    // A size that no package of an index has, and the one that it has.
    let steps: [(size: Int?, expected: [Section])] = [(Int(UInt32.max) + 1, moved), (package.installedSize, sections)]
    for (size, expected) in steps {
      try database.write { tx in _ = try store.modify(id, in: tx) { $0.installedSize = size } }
      try byView.follow(to: expected, changed: id, "a list of the view")
      try byIndex.follow(to: expected, changed: id, "a list of the counted index")
    }
  }
}

/// A list that follows commits, and the arrays that it must show.
private struct FollowedList<Source: ListSource> where Source.Group == String? {
  private let connection: Connection
  private var mapping: ListMapping<Source>
  private let key: (Source.ID) throws -> PackageID
  private var shown: [PackageListChecks.Section] = []

  init(_ source: Source, _ database: Database, _ key: @escaping (Source.ID) throws -> PackageID) throws {
    connection = database.connection()
    mapping = ListMapping(source)
    self.key = key
    _ = try mapping.advance(with: connection)
    shown = try read()
  }

  private func read() throws -> [PackageListChecks.Section] {
    try mapping.sections.enumerated().map { number, section in
      PackageListChecks.Section(
        name: section.group ?? nil, ids: try mapping.ids(inSection: number, at: 0..<section.count).map(key))
    }
  }

  /// Moves the list to the last commit, which has changed one package, and applies what it reports to the arrays.
  mutating func follow(to expected: [PackageListChecks.Section], changed id: PackageID, _ what: String) throws {
    let changes = try mapping.advance(with: connection)
    guard !changes.isReload, changes.sectionDeletions.isEmpty, changes.sectionInsertions.isEmpty,
      changes.deletions.isEmpty, changes.insertions.isEmpty, changes.moves.count + changes.updates.count == 1
    else { throw JobError("\(what) reports more than the change of one package") }
    for move in changes.moves {
      let package = shown[move.from.section].ids.remove(at: move.from.offset)
      shown[move.to.section].ids.insert(package, at: move.to.offset)
      guard package == id else { throw JobError("\(what) moves \(package.name) instead of \(id.name)") }
    }
    guard shown == expected, try read() == expected else {
      throw JobError("\(what) has other packages, or another order, than a scan")
    }
  }
}
