import Varve

/// An extension as a program would write it, on public API alone: how many notes hold a word.
struct WordCount: DatabaseExtension {
  static let kind = "test.wordCount"
  var versionTag = "1"
  var scope: CollectionScope { .only(["notes"]) }
  var stopsAt: String?

  func makeTransaction(_ context: ExtensionContext) -> WordCountTransaction {
    WordCountTransaction(self, context)
  }
}

struct BadWord: Error {}

final class WordCountTransaction: ExtensionTransaction {
  typealias Definition = WordCount
  private let definition: WordCount
  private let context: ExtensionContext

  init(_ definition: WordCount, _ context: ExtensionContext) {
    self.definition = definition
    self.context = context
  }

  func count(of word: String) throws -> Int { Int(try context.counter("counts", Array(word.utf8))) }

  func didInsert(_ row: Row) throws { try replace(row.key, by: row.object(as: String.self)) }
  func didUpdate(_ row: Row) throws { try replace(row.key, by: row.object(as: String.self)) }
  func didReplaceObject(_ row: Row) throws { try replace(row.key, by: row.object(as: String.self)) }
  func didRemove(_ key: RowKey, id: RowID) throws { try replace(key, by: "") }
  func didRemoveAll() throws {
    try context.deleteRange("counts", StorageRange())
    try context.deleteRange("words", StorageRange())
  }

  /// Takes away what the row counted for before: that is kept by its key.
  private func replace(_ key: RowKey, by text: String) throws {
    if let word = definition.stopsAt, text.contains(word) { throw BadWord() }
    let old = try context.get("words", key.bytes).map { String(decoding: $0, as: UTF8.self) } ?? ""
    for word in Set(old.split(separator: " ")) { try context.add("counts", -1, to: Array(word.utf8)) }
    for word in Set(text.split(separator: " ")) { try context.add("counts", 1, to: Array(word.utf8)) }
    if text.isEmpty {
      try context.delete("words", key.bytes)
    } else {
      try context.put("words", key.bytes, Array(text.utf8))
    }
  }
}
