import Synchronization
import Varve
import VarveTestSupport

/// An extension with parts of all forms, whose content follows from the rows of "c", which are texts.
///
/// ```
///  rows     the row's key          the text            put twice by each hook, first as something else
///  words    the text, the key      nothing             every tenth key also for the text "all"
///  once     the key                the text            write-once
///  log      the key                the text            append-only
///  letters  the first letter       how many rows       a counter that adds
///  ranked   the text, the key      nothing             counted
///  largest  "most"                 5                   a counter that keeps the maximum
/// ```
struct Kept: DatabaseExtension {
  static let kind = "test.kept"
  typealias Extra = @Sendable (KeptTransaction, Int) throws -> Void

  /// The number of rows that the extension received.
  final class Log: Sendable {
    private let counts = Mutex((given: 0, missed: 0))
    func give() { counts.withLock { $0.given += 1 } }
    func miss() { counts.withLock { $0.missed += 1 } }
    func take() -> (given: Int, missed: Int) {
      counts.withLock { counts in
        defer { counts = (0, 0) }
        return counts
      }
    }
  }

  var configuration: ExtensionConfiguration
  let log = Log()
  /// A function that is called for each row that is received, with its number.
  var extra: Extra = { _, _ in }
  var finish: @Sendable () throws -> Void = {}
  /// Whether the extension handles the removal of all rows.
  var followsRemovals = true

  init(_ version: String = "1") {
    configuration = ExtensionConfiguration(version: version)
    configuration.scope = .only(["c"])
    configuration.catchesUp = true
    configuration.parts = [
      PartDefinition("rows"), PartDefinition("words"), PartDefinition("once", .writeOnce),
      PartDefinition("log", .appendOnly), PartDefinition("letters", .counters(.sum)),
      PartDefinition("largest", .counters(.maximum)), PartDefinition("notes", .scratch),
    ]
    var ranked = PartDefinition("ranked")
    ranked.isCounted = true
    configuration.parts.append(ranked)
  }

  func makeTransaction(_ context: ExtensionContext<Self>) throws -> KeptTransaction {
    try KeptTransaction(self, context)
  }
}

/// The content of the parts: keys and values by the part's name.
typealias KeptContent = [String: [[UInt8]: [UInt8]]]

final class KeptTransaction: ExtensionTransaction {
  typealias Definition = Kept
  private let definition: Kept
  let context: ExtensionContext<Kept>
  private var texts: [(key: [UInt8], text: String)] = []

  init(_ definition: Kept, _ context: ExtensionContext<Kept>) throws {
    self.definition = definition
    self.context = context
  }

  func part(_ name: String) throws -> Part { try context.part(name) }

  func didChange(_ change: borrowing RowChange) throws {
    let key = change.key.bytes
    if change.event != .inserted { try forget(key) }
    guard let text = try change.row?.object(as: String.self) else { return }
    try keep(key, text)
    guard change.event == .inserted else { return }
    definition.log.give()
    try definition.extra(self, try change.key.key(as: Int.self))
  }

  func didFinishBuild() throws { try definition.finish() }

  func didMiss(_ key: RowKey, _ row: Row?) throws {
    definition.log.miss()
    try forget(key.bytes)
    if let text = try row?.object(as: String.self) { try keep(key.bytes, text) }
  }

  func removesAll(in collection: String?) throws -> Bool {
    if !definition.followsRemovals { return false }
    for name in ["rows", "words", "once", "log", "letters", "ranked"] { try part(name).deleteRange(StorageRange()) }
    texts = []
    return true
  }

  private func keep(_ key: [UInt8], _ text: String) throws {
    // The flush at the end of the chunk writes these.
    texts.append((key, text))
    try part("rows").put(key, [0])
    try part("words").put(Array(text.utf8) + key, [])
    try part("ranked").insert(Array(text.utf8) + key, [])
    if key.last.map({ $0 % 10 == 0 }) ?? false { try part("words").put(Array("all".utf8) + key, []) }
    try part("once").put(key, Array(text.utf8))
    try part("log").put(key, Array(text.utf8))
    try part("letters").add(1, to: Array(text.utf8.prefix(1)))
    try part("largest").add(Int64(key.last ?? 0) % 6, to: Array("most".utf8))
  }

  func flush() throws {
    for (key, text) in texts { try part("rows").put(key, Array(text.utf8)) }
    texts = []
  }

  private func forget(_ key: [UInt8]) throws {
    try flush()
    guard let text = try part("rows").get(key) else { return }
    try part("rows").delete(key)
    try part("words").delete(text + key)
    try part("ranked").remove(text + key)
    try part("words").delete(Array("all".utf8) + key)
    try part("once").delete(key)
    try part("log").delete(key)
    try part("letters").add(-1, to: Array(text.prefix(1)))
  }

  /// Returns the content of the parts; counters that are zero are left out.
  func content() throws -> KeptContent {
    var content: KeptContent = [:]
    for name in ["rows", "words", "once", "log", "letters", "largest", "ranked"] {
      content[name] = [:]
      var cursor = try part(name).cursor()
      while let (key, value) = try cursor.next() {
        if name == "letters", value.allSatisfy({ $0 == 0 }) { continue }
        content[name]?[key] = value
      }
    }
    try part("ranked").requireRightCounts()
    return content
  }

  /// Returns the content that the parts must have for the rows of a transaction.
  static func wanted(_ tx: ReadTransaction) throws -> KeptContent {
    var content: KeptContent = [
      "rows": [:], "words": [:], "once": [:], "log": [:], "letters": [:], "ranked": [:],
    ]
    var counts: [UInt8: Int64] = [:]
    var rows = try tx.rows(in: "c")
    while let row = try rows.next() {
      let (key, text) = (row.key.bytes, Array(try row.object(as: String.self).utf8))
      content["rows"]?[key] = text
      content["once"]?[key] = text
      content["log"]?[key] = text
      content["words"]?[text + key] = []
      content["ranked"]?[text + key] = []
      if key.last.map({ $0 % 10 == 0 }) ?? false { content["words"]?[Array("all".utf8) + key] = [] }
      counts[text[0], default: 0] += 1
    }
    for (letter, count) in counts { content["letters"]?[[letter]] = CounterRule.sum.bytes(count) }
    content["largest"] = [Array("most".utf8): CounterRule.maximum.bytes(5)]
    return content
  }
}

/// A storage that calls a closure after tables were ingested into a family, before the caller continues.
final class IngestionProbe: ForwardingBackend, @unchecked Sendable {
  // Sendable: a mutex guards the state.
  private let state = Mutex<(names: [String], body: (@Sendable (String) throws -> Void)?)>(([], nil))

  /// Returns and clears the names of the families into which tables were ingested.
  func take() -> [String] {
    state.withLock { state in
      defer { state.names = [] }
      return state.names
    }
  }

  func whenIngested(_ body: @escaping @Sendable (String) throws -> Void) { state.withLock { $0.body = body } }

  override func beginIngestion(into family: StorageFamily) throws -> any StorageIngestion {
    Probed(try base.beginIngestion(into: family)) { [self] in
      let body = state.withLock { state in
        state.names.append(family.name)
        return state.body
      }
      try body?(family.name)
    }
  }

  private final class Probed: StorageIngestion {
    private let base: any StorageIngestion
    private let didFinish: () throws -> Void

    init(_ base: any StorageIngestion, _ didFinish: @escaping () throws -> Void) {
      self.base = base
      self.didFinish = didFinish
    }

    func put(_ key: RawSpan, _ value: RawSpan) throws { try base.put(key, value) }
    func finish() throws {
      try base.finish()
      try didFinish()
    }
  }
}
