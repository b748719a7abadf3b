import Varve

/// An extension as a program would write it, with public API only, which counts the notes that contain each word.
struct WordCount: DatabaseExtension {
  static let kind = "test.wordCount"
  var version = "1"
  var stopsAt: String?

  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: version)
    configuration.scope = .only(["notes"])
    configuration.parts = [PartDefinition("counts", .counters(.sum)), PartDefinition("words")]
    return configuration
  }

  func makeTransaction(_ context: ExtensionContext<Self>) throws -> WordCountTransaction {
    try WordCountTransaction(self, context)
  }
}

struct BadWord: Error {}

final class WordCountTransaction: ExtensionTransaction {
  typealias Definition = WordCount
  private let definition: WordCount
  private let counts: Part
  private let words: Part

  init(_ definition: WordCount, _ context: ExtensionContext<WordCount>) throws {
    self.definition = definition
    counts = try context.part("counts")
    words = try context.part("words")
  }

  func count(of word: String) throws -> Int { Int(try counts.counter(Array(word.utf8))) }

  func didChange(_ change: borrowing RowChange) throws {
    try replace(change.key, by: change.row?.object(as: String.self) ?? "")
  }

  func removesAll(in collection: String?) throws -> Bool {
    try counts.deleteRange(StorageRange())
    try words.deleteRange(StorageRange())
    return true
  }

  /// Removes the contribution of the row's previous text, which is kept by the row's key.
  private func replace(_ key: RowKey, by text: String) throws {
    if let word = definition.stopsAt, text.contains(word) { throw BadWord() }
    let old = try words.get(key.bytes).map { String(decoding: $0, as: UTF8.self) } ?? ""
    for word in Set(old.split(separator: " ")) { try counts.add(-1, to: Array(word.utf8)) }
    for word in Set(text.split(separator: " ")) { try counts.add(1, to: Array(word.utf8)) }
    if text.isEmpty {
      try words.delete(key.bytes)
    } else {
      try words.put(key.bytes, Array(text.utf8))
    }
  }
}
