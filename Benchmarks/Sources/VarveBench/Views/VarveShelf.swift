import Foundation
import Varve
import VarveEngine
import VarveViews

/// Varve's views and counted indexes through their public API, over a typed store.
///
/// Each read is a transaction. The queries of the counted index are kept, as a list keeps them, except for the one that
/// has a title in its condition.
final class VarveShelf: ShelfEngine, @unchecked Sendable {
  // Unchecked: the database changes only in `reopen` and `build`, while no other thread uses it.
  private(set) var database: Database
  private var backend: EngineBackend
  private var write: (Book, WriteTransaction) throws -> Void
  private(set) var form: ShelfForm
  private let path: String
  private let settings: EngineSettings
  private(set) var view: ExtensionHandle<AutoView<Int>>
  private(set) var sections: SectionedQuery<BooksShelved, Int>

  static var version: String { VarveAdapter.version }
  static func fileUse(_ name: String) -> FileUse { VarveAdapter.fileUse(name) }
  static var reads: [ShelfRead] { [.entry, .offset, .group, .range] }

  static func forms(_ workload: Workload) -> [ShelfForm] {
    switch workload {
    case .viewinsert: [.rows, .view, .index, .filtered]
    case .viewupdate, .viewdisk: [.rows, .view, .index]
    default: [.view, .index]
    }
  }

  static func keySize(of book: Book) throws -> Int? {
    try book.year.encoded().count + book.title.encoded().count + book.id.encoded().count
  }

  init(path: String, settings: EngineSettings) throws {
    (self.path, self.settings, form) = (path, settings, settings.shelf)
    view = Shelf.view(settings.shelf).named(Shelf.name)
    (backend, database) = try Self.open(path, settings, settings.shelf, view)
    write = Self.write(settings.shelf, database)
    sections = Self.sections(database)
  }

  private static func open(
    _ path: String, _ settings: EngineSettings, _ form: ShelfForm, _ view: ExtensionHandle<AutoView<Int>>
  ) throws -> (EngineBackend, Database) {
    let backend = try EngineBackend(VarveAdapter.openEngine(path: path, settings: settings))
    let definition =
      switch form {
      case .rows: DatabaseDefinition { BooksPlain.self }
      case .index: DatabaseDefinition { BooksShelved.self }
      case .view, .filtered:
        DatabaseDefinition {
          BooksPlain.self
          view
        }
      }
    return (backend, try Database.open(backend, path: path, definition: definition))
  }

  private static func write(_ form: ShelfForm, _ database: Database) -> (Book, WriteTransaction) throws -> Void {
    if form == .index {
      let store = Store<BooksShelved>(in: database)
      return { book, tx in try store.persist(book, in: tx) }
    }
    let store = Store<BooksPlain>(in: database)
    return { book, tx in try store.persist(book, in: tx) }
  }

  private static func sections(_ database: Database) -> SectionedQuery<BooksShelved, Int> {
    Store<BooksShelved>(in: database).query.sorted(by: \.title).sectioned(by: \.year)
  }

  // MARK: - Writing

  func insert(_ count: Int, _ next: () -> Book) throws {
    try database.write { tx in
      for _ in 0..<count { try write(next(), tx) }
    }
  }

  func update(_ count: Int, _ next: () -> Book) throws { try insert(count, next) }
  func countRows() throws -> Int { try database.read { tx in try tx.count(in: Book.collection) } }

  // MARK: - Reading

  func id(at offset: Int, of year: Int) throws -> UUID? {
    try database.read { tx in
      form == .index
        ? try sections.ids(of: year, at: offset..<(offset + 1), in: tx).first
        : try tx[view].row(in: year, at: offset)?.key(as: UUID.self)
    }
  }

  func offset(of book: Book, byNumbering: Bool) throws -> Int? {
    try database.read { tx in
      form == .index
        ? try sections.place(of: book.id, in: tx)?.offset
        : try tx[view].place(of: Book.rowKey(book.id))?.offset
    }
  }

  func count(of year: Int) throws -> Int {
    try database.read { tx in
      form == .index ? try sections.count(of: year, in: tx) : try tx[view].count(in: year)
    }
  }

  func count(of year: Int, from title: String) throws -> Int {
    try database.read { tx in
      form == .index
        ? try sections.store.query.filter { $0.year == year && $0.title >= title }.count(in: tx)
        : try tx[view].offsets(in: year, title...).count
    }
  }

  func scan() throws -> Int {
    try database.read { tx in
      var count = 0
      if form == .index {
        for section in try sections.sections(in: tx) {
          count += try sections.ids(of: section.value, at: 0..<section.count, in: tx).count
        }
        return count
      }
      let view = try tx[view]
      for (year, _) in try view.groups() {
        var cursor = try view.cursor(in: year)
        while try cursor.next() != nil { count += 1 }
      }
      return count
    }
  }

  // MARK: - Opening and building

  func reopen() throws { try open(form) }

  private func open(_ form: ShelfForm) throws {
    try database.close()
    view = Shelf.view(form).named(Shelf.name)
    (backend, database) = try Self.open(path, settings, form, view)
    write = Self.write(form, database)
    sections = Self.sections(database)
    self.form = form
  }

  func build(_ form: ShelfForm, inShadow: Bool) throws -> Bool {
    if inShadow {
      guard form == .view, self.form == .view else { return false }
      try database.write { tx in try tx.replaceDefinition(of: view, by: Shelf.view("2")) }
    } else {
      try open(form)
    }
    if form == .index {
      try sections.store.warm()
    } else {
      try database.waitUntilReady(view)
    }
    return true
  }

  // MARK: - The engine

  func compact() throws { try backend.engine.compact() }

  func waitForCompaction() throws -> UInt64 {
    try backend.engine.waitForCompaction()
    return 0
  }

  func counters() -> EngineCounters { VarveAdapter.counters(backend.engine) }
  func close() throws { try database.close() }
}
