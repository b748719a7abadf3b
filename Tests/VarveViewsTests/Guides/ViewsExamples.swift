import Varve
import VarveViews

// The Swift blocks of the guide Views, as ViewsGuideTests runs them: a test compares them with the guide.

/// Block 1 of Views.md.
enum Views1 {
  struct Book: Codable, Identifiable, Sendable {
    var id: String
    var author: String
    var title: String
  }

  struct BookFormat: StoreFormat {
    static let collection = "books"
    typealias Instance = Book
    let byAuthor = Index(\.author, \.title, counted: true)
  }

  /// Returns the authors with their numbers of books, and the first ten titles of one.
  static func shelf(of author: String, _ database: Database) throws -> (authors: [String: Int], titles: [String]) {
    let shelf = Store<BookFormat>(in: database).query.sorted(by: \.title).sectioned(by: \.author)
    return try database.read { tx in
      let authors = try shelf.sections(in: tx).map { ($0.value, $0.count) }
      let titles = try shelf.fetch(of: author, at: 0..<10, in: tx).map(\.title)
      return (Dictionary(uniqueKeysWithValues: authors), titles)
    }
  }
}

/// Block 2 of Views.md.
enum Views2 {
  struct Message: Persistable {
    static let collection = "messages"
    var id: Int
    var mailbox: String
    var sender: String
    var date: Int
    @StoredSeparately var metadata: Flags? = nil
    struct Flags: Codable, Hashable, Sendable { var isRead: Bool }
  }

  /// The messages of each mailbox, the newest first.
  static let mailboxes = AutoView(version: "1", of: [Message.collection]) { row in
    let message = try row.object(as: Message.self)
    return ViewPlace(message.mailbox, Descending(message.date))
  }.named("mailboxes")

  /// The same without the messages that were read.
  static let unread = mailboxes.definition.filtered(version: "1", reads: .metadata) { row in
    try row.metadata(as: Message.Flags.self)?.isRead != true
  }.named("unread")

  /// The texts that are marked. A closure that has several statements and returns nil needs the type of the groups.
  static let marked = AutoView<String>(version: "1", of: ["texts"]) { row in
    let text = try row.object(as: String.self)
    guard text.hasPrefix("!") else { return nil }
    return ViewPlace("marked", text)
  }.named("marked")

  static func open() throws -> Database {
    try Database.inMemory {
      Message.self
      mailboxes
      unread
      marked
    }
  }
}

/// Block 3 of Views.md.
enum Views3 {
  /// Returns what a list shows of a group from an offset on, and the number of rows of the group.
  static func page(
    _ group: String, from offset: Int, _ view: ExtensionHandle<AutoView<String>>, in tx: ReadTransaction
  ) throws -> (rows: [RowKey], count: Int) {
    let view = try tx[view]
    return (try view.rows(in: group, at: offset..<(offset + 20)), try view.count(in: group))
  }

  /// Returns the number of rows of a group whose positions begin with a date of a range, the newest first.
  static func count(
    _ dates: ClosedRange<Int>, of group: String, _ view: ExtensionHandle<AutoView<String>>, in tx: ReadTransaction
  ) throws -> Int {
    try tx[view].offsets(in: group, Descending(dates.upperBound)...Descending(dates.lowerBound)).count
  }

  /// Returns the neighbors of a row.
  static func neighbors(
    of row: RowKey, _ view: ExtensionHandle<AutoView<String>>, in tx: ReadTransaction
  ) throws -> [RowKey?] {
    let view = try tx[view]
    guard let (group, offset) = try view.place(of: row) else { return [] }
    return [try view.row(in: group, at: offset - 1), try view.row(in: group, at: offset + 1)]
  }
}

/// Block 4 of Views.md.
enum Views4 {
  struct Song: Persistable {
    static let collection = "songs"
    var id: Int
    var artist: String
    var title: String
    var plays: Int
  }

  enum Order: String, Sendable {
    case title, plays

    /// The songs of each artist in this order.
    var definition: AutoView<String> {
      AutoView(version: rawValue, of: [Song.collection]) { row in
        let song = try row.object(as: Song.self)
        return switch self {
        case .title: ViewPlace(song.artist, song.title)
        case .plays: ViewPlace(song.artist, Descending(song.plays), song.title)
        }
      }
    }
  }

  static func sort(_ view: ExtensionHandle<AutoView<String>>, by order: Order, _ database: Database) throws {
    try database.write { tx in try tx.replaceDefinition(of: view, by: order.definition) }
  }
}

/// Block 5 of Views.md.
enum Views5 {
  static let playlists = ManualView<String>(of: ["songs"]).named("playlists")

  /// Adds songs at the end of a playlist, and returns how many were not in any.
  static func add(_ songs: [RowKey], to playlist: String, in tx: WriteTransaction) throws -> Int {
    try tx[playlists].append(songs, to: playlist)
  }

  /// Moves the songs that the user has dragged before another one, or to the end.
  static func drop(_ songs: [RowKey], before other: RowKey?, in playlist: String, _ tx: WriteTransaction) throws {
    try tx[playlists].move(songs, before: other, in: playlist)
  }

  /// Adds a song before the first one that is longer.
  static func add(_ song: RowKey, bySizeTo playlist: String, in tx: WriteTransaction) throws {
    try tx[playlists].insert(song, in: playlist) { try $0.object(as: Int.self) < $1.object(as: Int.self) }
  }
}

/// Block 6 of Views.md.
enum Views6 {
  /// The titles of a list, which follows a view.
  struct Titles {
    private let connection: Connection
    private var mapping: ListMapping<ViewSource<AutoView<String>, String>>
    private(set) var sections: [[String]] = []

    init(_ view: ExtensionHandle<AutoView<String>>, _ database: Database) throws {
      connection = database.connection()
      mapping = ListMapping(ViewSource(view, in: database) { row in try row.object(as: String.self) })
      try advance()
    }

    /// Moves to the last commit. Returns false if nothing has changed.
    @discardableResult
    mutating func advance() throws -> Bool {
      let changes = try mapping.advance(with: connection)
      if changes.isReload {
        sections = try mapping.sections.indices.map { section in
          try (0..<mapping.sections[section].count).map { try title(ListIndex(section: section, offset: $0)) }
        }
        return true
      }
      // First all that leaves, by the old positions, in descending order; then all that comes, by the new ones.
      let removed = changes.deletions + changes.moves.map(\.from)
      for index in removed.sorted(by: >) { sections[index.section].remove(at: index.offset) }
      for section in changes.sectionDeletions { sections.remove(at: section) }
      for section in changes.sectionInsertions {
        let count = mapping.sections[section.index].count
        sections.insert(
          try (0..<count).map { try title(ListIndex(section: section.index, offset: $0)) }, at: section.index)
      }
      let inserted = changes.insertions + changes.moves.map(\.to)
      for index in inserted.sorted() { sections[index.section].insert(try title(index), at: index.offset) }
      for update in changes.updates { sections[update.new.section][update.new.offset] = try title(update.new) }
      return !changes.isEmpty
    }

    private func title(_ index: ListIndex) throws -> String { try mapping.element(at: index)?.value ?? "" }
  }
}
