@testable import EngineModel

/// The answers of an engine to a sequence: a number for each operation, and one for the state at the end.
struct SequenceHistory: Sendable {
  var answers: [UInt64] = []
  /// The answers as text, if they were requested.
  var texts: [String] = []
  /// A description of an event that must not happen with any options; it is not an answer.
  var fault: String?
  /// The number of changes of tables before and after which the content was compared.
  var installCount = 0
  /// The number of transactions with each outcome.
  var outcomes: [HeldTransaction.Outcome: Int] = [:]

  /// Returns the index of the first operation in which two histories differ.
  func firstDifference(from other: SequenceHistory) -> Int? {
    if let index = zip(answers, other.answers).enumerated().first(where: { $1.0 != $1.1 })?.offset { return index }
    return answers.count == other.answers.count ? nil : min(answers.count, other.answers.count)
  }
}

/// The answer to one operation, composed of its parts.
struct SequenceAnswer {
  private(set) var hash: UInt64 = 0x9e37_79b9_7f4a_7c15
  private(set) var text = ""
  private let isVerbose: Bool

  init(isVerbose: Bool) { self.isVerbose = isVerbose }

  mutating func add(_ number: UInt64) {
    hash = (hash ^ number) &* 0xff51_afd7_ed55_8ccd
    hash ^= hash >> 32
    if isVerbose { text += " \(number)" }
  }

  mutating func add(_ bytes: [UInt8]?) {
    guard let bytes else { return add(word: "nothing") }
    mix(bytes)
    if isVerbose { text += " " + brief(bytes) }
  }

  mutating func add(word: StaticString) {
    add(name: word.description)
  }

  mutating func add(name: String) {
    mix(Array(name.utf8))
    if isVerbose { text += " " + name }
  }

  private mutating func mix(_ bytes: [UInt8]) {
    var word: UInt64 = UInt64(bytes.count)
    for (index, byte) in bytes.enumerated() {
      word = (word << 8) | UInt64(byte)
      if index & 7 == 7 { mix(word) }
    }
    mix(word)
  }

  private mutating func mix(_ number: UInt64) {
    hash = (hash ^ number) &* 0xff51_afd7_ed55_8ccd
    hash ^= hash >> 32
  }
}
