import Testing

/// Checks that certain mistakes do not compile, so that the compiler finds them instead of a user.
struct RefusedCodeTests {
  /// Returns a format with two versions, whose switch has `cases`.
  private static func format(_ cases: String) -> String {
    """
    import Varve

    struct NoteFormat: StoreFormat {
      static let collection = "notes"
      static let currentVersion = Version.second
      enum Version: Int, CaseIterable, Sendable { case first = 1, second = 2 }
      struct Instance: Codable, Identifiable, Sendable {
        var id: Int
        var text: String
      }
      static func decode(_ stored: StoredValue, version: Version) throws -> Instance {
        switch version {
    \(cases)
        }
      }
    }
    """
  }

  private static let first = "    case .first: return Instance(id: try stored.decode(Int.self), text: \"\")"
  private static let second = "    case .second: return try stored.decode()"

  /// Returns the compiler's messages for a program.
  private static func failures(_ text: String) throws -> String {
    let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
    return try ExampleCompiler().failures([SwiftExample(path: "Refused.swift", line: 1, lines: lines)])
  }

  @Test func `a switch without one of the versions does not compile, and a complete switch does`() throws {
    let forgotten = try Self.failures(Self.format(Self.second))
    #expect(forgotten.contains("Refused.swift:12"), "\(forgotten)")
    #expect(forgotten.contains("switch must be exhaustive"), "\(forgotten)")
    #expect(forgotten.contains(".first"), "\(forgotten)")
    let whole = try Self.failures(Self.format(Self.first + "\n" + Self.second))
    #expect(whole.isEmpty, "\(whole)")
  }

  @Test func `a type whose identifier can't be a key, and a write in a read transaction, do not compile`() throws {
    let keyless = """
      import Varve

      struct Key: Hashable, Codable, Sendable { var number: Int }
      struct Item: Persistable {
        static let collection = "items"
        var id: Key
      }
      """
    #expect(try Self.failures(keyless).contains("KeyCodable"))
    let writing = """
      import Varve

      func change(_ tx: ReadTransaction) throws { try tx.set(1, key: 1, in: "numbers") }
      """
    #expect(try Self.failures(writing).contains("no member 'set'"))
  }
}
