import Testing
import Varve
import VarveViews

// The programs of the guide "Lists on screen".

private struct Message: Codable, Identifiable, Sendable {
  var id: Int
  var mailbox: String
  var sent: Int
  var text: String
}

private struct MessageFormat: StoreFormat {
  static let collection = "messages"
  typealias Instance = Message
  let byMailbox = Index(\.mailbox, \.sent, counted: true)
}

@MainActor private final class MailWindow {
  let mailboxes: LiveGroups<SectionedQuery<MessageFormat, String>>
  let messages: LiveList<SectionedQuery<MessageFormat, String>>
  private let store: Store<MessageFormat>
  var selection: Message.ID?

  init(_ store: Store<MessageFormat>) {
    self.store = store
    let source = store.query.sorted(by: \.sent).sectioned(by: \.mailbox)
    let scope = LiveScope(store.database)
    mailboxes = LiveGroups(source, in: scope)
    messages = LiveList(source, window: .last(50), in: scope)
  }

  /// Shows one mailbox.
  func open(_ mailbox: String) { messages.show(.groups([mailbox])) }

  /// Shows what contains a text. Each call ends the search before.
  func search(_ text: String) {
    if text.isEmpty { messages.filter(where: nil) } else { messages.filter { $0.text.contains(text) } }
  }

  /// Deletes rows by their ids, and not by their offsets: the list may show a newer commit by then.
  func delete(_ ids: [Message.ID]) async throws { try await store.delete(ids: ids) }

  /// The row to select when the selected one has gone.
  func selectNearest() {
    guard let selection, let index = messages.nearest(to: selection) else { return }
    self.selection = messages.row(at: index)?.id
  }
}

@MainActor struct ListsOnScreenTests {
  @Test func `the programs of the guide do what it says`() async throws {
    let database = try await Database.inMemory { MessageFormat.self }
    let store = Store<MessageFormat>(in: database)
    for number in 0..<60 {
      let mailbox = number % 3 == 0 ? "later" : "inbox"
      try await store.persist(Message(id: number, mailbox: mailbox, sent: number, text: "message \(number)"))
    }
    let window = MailWindow(store)
    await waitUntil { window.messages.count == 60 && window.mailboxes.state.isLoaded }
    #expect(window.mailboxes.groups.map(\.id) == ["inbox", "later"] && window.mailboxes.count(of: "inbox") == 40)
    window.open("inbox")
    await waitUntil { window.messages.count == 40 }
    window.selection = 59
    window.search("message 5")
    await waitUntil { !window.messages.isFiltering }
    #expect(window.messages.rows.map(\.id) == [5, 50, 52, 53, 55, 56, 58, 59])
    try await window.delete(window.messages.sections[0].rows[7...].map(\.id))
    await waitUntil { window.messages.count == 7 }
    window.selectNearest()
    #expect(window.selection == 58)
    window.search("")
    await waitUntil { window.messages.count == 39 }

    var applied: [ListChanges<String>] = []
    window.messages.onChange = { changes in applied.append(changes) }
    try await store.persist(Message(id: 100, mailbox: "inbox", sent: 100, text: "new"))
    await waitUntil { window.messages.count == 40 }
    #expect(applied.last?.insertions == [ListIndex(section: 0, offset: 39)])
  }

  @Test func `the mapping of the guide follows its steps`() async throws {
    let database = try await Database.inMemory { MessageFormat.self }
    let store = Store<MessageFormat>(in: database)
    let source = store.query.sorted(by: \.sent).sectioned(by: \.mailbox)
    let mapping = ListMapping(source, sections: .all.reversed().range(.flexible(50)))
    var steps = mapping.updates().makeAsyncIterator()
    #expect(try await steps.next()?.changes.isReload == true)
    try await store.persist(Message(id: 1, mailbox: "inbox", sent: 1, text: "hello"))
    var step = try await steps.next()
    while step?.mapping.isEmpty == true { step = try await steps.next() }
    #expect(step?.changes.sectionInsertions.map(\.group) == ["inbox"])
    #expect(try step?.mapping.element(at: ListIndex(section: 0, offset: 0))?.text == "hello")
  }
}
