import Foundation
import Testing
import Varve
import VarveViews

/// Tests that run each example of the guide Views, and check that it does what the guide describes.
struct ViewsGuideTests {
  /// The examples must equal those of the guide, apart from spaces and the word `static`.
  @Test func `the examples in the tests equal those of the guide`() throws {
    let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
    let root = folder.deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    func letters(_ text: some StringProtocol) -> String {
      text.replacingOccurrences(of: "static ", with: "").filter { !$0.isWhitespace }
    }
    let examples = letters(
      try String(contentsOf: folder.appending(path: "ViewsExamples.swift"), encoding: .utf8))
    let path = root.appending(path: "Sources/VarveViews/VarveViews.docc/Guides/Views.md")
    let parts = try String(contentsOf: path, encoding: .utf8).components(separatedBy: "```swift\n").dropFirst()
    #expect(parts.count == 6)
    for (number, part) in parts.enumerated() {
      let block = part.components(separatedBy: "\n```")[0]
      let body = block.split(separator: "\n").filter { !$0.hasPrefix("import ") }.joined(separator: "\n")
      #expect(examples.contains("enumViews\(number + 1){\(letters(body))}"), "block \(number + 1)")
    }
  }

  @Test func `Views 1: a counted index has the authors with their numbers of books, and the titles of one`() throws {
    let database = try Database.inMemory { Views1.BookFormat.self }
    let books = Store<Views1.BookFormat>(in: database)
    try database.write { tx in
      for (number, title) in ["Persuasion", "Emma", "Sanditon"].enumerated() {
        try books.persist(Views1.Book(id: "a\(number)", author: "Austen", title: title), in: tx)
      }
      try books.persist(Views1.Book(id: "w", author: "Woolf", title: "Orlando"), in: tx)
    }
    let (authors, titles) = try Views1.shelf(of: "Austen", database)
    #expect(authors == ["Austen": 3, "Woolf": 1] && titles == ["Emma", "Persuasion", "Sanditon"])
  }

  /// Returns a database with messages of two mailboxes, whose dates are their ids.
  private func messages() throws -> Database {
    let database = try Views2.open()
    try database.write { tx in
      for id in 1...9 {
        let message = Views2.Message(id: id, mailbox: id % 3 == 0 ? "work" : "home", sender: "ada", date: id)
        try message.persist(in: tx)
      }
    }
    return database
  }

  private func ids(
    _ view: ExtensionHandle<AutoView<String>>, _ mailbox: String, _ database: Database
  ) throws -> [Int] {
    try database.read { tx in try tx[view].rows(in: mailbox, at: 0..<100).map { try $0.key() } }
  }

  @Test func `Views 2: a view has messages by date, and a filtered one those that were not read`() throws {
    let database = try messages()
    #expect(try ids(Views2.mailboxes, "work", database) == [9, 6, 3])
    try database.write { tx in
      for id in [6, 7] {
        try tx.replaceMetadata(Views2.Message.Flags(isRead: true), key: id, in: Views2.Message.collection)
      }
    }
    #expect(try ids(Views2.mailboxes, "work", database) == [9, 6, 3])
    #expect(try ids(Views2.unread, "work", database) == [9, 3])
    #expect(try ids(Views2.unread, "home", database) == [8, 5, 4, 2, 1])
    try database.write { tx in
      for (key, text) in ["!b", "c", "!a"].enumerated() { try tx.set(text, key: key, in: "texts") }
    }
    try database.read { tx throws in
      #expect(try tx[Views2.mailboxes].verify().isEmpty && tx[Views2.unread].verify().isEmpty)
      #expect(try tx[Views2.marked].rows(in: "marked", at: 0..<9).map { try $0.key(as: Int.self) } == [2, 0])
    }
  }

  @Test func `Views 3: pages, ranges of dates and neighbors are found by offsets`() throws {
    let database = try messages()
    let view = Views2.mailboxes
    try database.read { tx in
      func row(_ id: Int) throws -> RowKey { try Views2.Message.rowKey(id) }
      let page = try Views3.page("home", from: 4, view, in: tx)
      #expect(try page.rows == [row(2), row(1)] && page.count == 6)
      #expect(try Views3.count(2...7, of: "home", view, in: tx) == 4)
      #expect(try Views3.count(10...20, of: "home", view, in: tx) == 0)
      #expect(try Views3.neighbors(of: row(6), view, in: tx) == [row(9), row(3)])
      #expect(try Views3.neighbors(of: row(9), view, in: tx) == [nil, row(6)])
      #expect(try Views3.neighbors(of: row(10), view, in: tx).isEmpty)
    }
  }

  @Test func `Views 4: another definition sorts the songs again`() throws {
    let view = Views4.Order.title.definition.named("songs")
    let database = try Database.inMemory {
      Views4.Song.self
      view
    }
    try database.write { tx in
      for (id, title) in ["Blue", "Amber", "Cyan"].enumerated() {
        try Views4.Song(id: id, artist: "x", title: title, plays: id).persist(in: tx)
      }
    }
    #expect(try ids(view, "x", database) == [1, 0, 2])
    try Views4.sort(view, by: .plays, database)
    try database.waitUntilReady(view)
    #expect(try ids(view, "x", database) == [2, 1, 0])
    #expect(try database.read { tx in try tx[view].versionTag } == "plays")
  }

  @Test func `Views 5: songs are added, dragged and inserted by size`() throws {
    let database = try Database.inMemory { Views5.playlists }
    let songs = try (0..<5).map { try RowKey($0, in: "songs") }
    func shown() throws -> [Int] {
      try database.read { tx in try tx[Views5.playlists].rows(in: "p", at: 0..<9).map { try $0.key() } }
    }
    try database.write { tx in
      for (size, song) in [20, 10, 40, 30, 35].enumerated() { try tx.set(song, key: size, in: "songs") }
      #expect(try Views5.add([songs[0], songs[1], songs[2], songs[0]], to: "p", in: tx) == 3)
      #expect(try Views5.add([songs[0]], to: "q", in: tx) == 0)
    }
    #expect(try shown() == [0, 1, 2])
    try database.write { tx in try Views5.drop([songs[0]], before: songs[2], in: "p", tx) }
    #expect(try shown() == [1, 0, 2])
    try database.write { tx in try Views5.add(songs[3], bySizeTo: "p", in: tx) }
    #expect(try shown() == [1, 0, 3, 2])
    try database.write { tx in try Views5.drop([songs[1], songs[0]], before: nil, in: "p", tx) }
    #expect(try shown() == [3, 2, 1, 0])
    try database.write { tx in try tx.remove(key: 2, in: "songs") }
    #expect(try shown() == [3, 1, 0])
  }

  @Test func `Views 6: a list of titles follows rows that come, move, change and go`() throws {
    let view = AutoView(version: "1", of: ["titles"]) { row in
      let title = try row.object(as: String.self)
      return ViewPlace(String(title.prefix(1)), title)
    }.named("titles")
    let database = try Database.inMemory { view }
    var titles = try Views6.Titles(view, database)
    #expect(titles.sections.isEmpty)
    func change(_ changes: [Int: String?]) throws {
      try database.write { tx in
        for (key, title) in changes {
          if let title { try tx.set(title, key: key, in: "titles") } else { try tx.remove(key: key, in: "titles") }
        }
      }
    }
    try change([1: "ba", 2: "aa", 3: "bb"])
    #expect(try titles.advance())
    #expect(titles.sections == [["aa"], ["ba", "bb"]])
    try change([2: "bc", 3: "b", 4: "ca"])
    #expect(try titles.advance())
    #expect(titles.sections == [["b", "ba", "bc"], ["ca"]])
    try change([1: nil, 4: "bz"])
    try change([5: "b"])
    #expect(try titles.advance())
    #expect(titles.sections == [["b", "b", "bc", "bz"]])
    #expect(try !titles.advance())
    try database.write { tx in try tx.removeAll(in: "titles") }
    #expect(try titles.advance())
    #expect(titles.sections.isEmpty)
  }
}
