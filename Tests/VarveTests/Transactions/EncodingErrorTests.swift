import Foundation
import Testing
import Varve

@testable import ObjectFixtures

/// Tests that an error that a type throws when it is encoded or decoded is the direct cause of the reported error.
struct EncodingErrorTests {
  private struct Refusal: Error, Equatable { var text: String }

  /// A type that refuses to be encoded, or to be decoded, at the top level or in a field.
  private struct Picky: Codable, Sendable {
    var text: String
    private enum CodingKeys: CodingKey { case text, refuses }

    init(_ text: String) { self.text = text }

    init(from decoder: any Decoder) throws {
      text = try decoder.container(keyedBy: CodingKeys.self).decode(String.self, forKey: .text)
      guard text != "unreadable" else { throw Refusal(text: text) }
    }

    func encode(to encoder: any Encoder) throws {
      guard text != "unwritable" else { throw Refusal(text: text) }
      var container = encoder.container(keyedBy: CodingKeys.self)
      try container.encode(text, forKey: .text)
    }
  }

  private struct Nest: Codable, Sendable { var list: [Picky] }

  private struct PickyFormat<Kind: CoderName>: StoreFormat {
    static var collection: String { "picky" }
    static var coder: CoderKind { Kind.coder }
    struct Instance: Codable, Identifiable, Sendable {
      var id: Int
      var nest: Nest
    }
    typealias Metadata = Nest
  }

  private protocol CoderName: Sendable { static var coder: CoderKind { get } }
  private enum Binary: CoderName { static var coder: CoderKind { .binary } }
  private enum JSON: CoderName { static var coder: CoderKind { .json } }
  private enum PropertyList: CoderName { static var coder: CoderKind { .propertyList } }

  private static func check(
    _ code: DatabaseError.Code, key: String?, _ body: () throws -> Void, at location: SourceLocation = #_sourceLocation
  ) {
    let error = #expect(throws: DatabaseError.self, sourceLocation: location) { try body() }
    let text = code == .encodingFailed ? "unwritable" : "unreadable"
    #expect(error?.code == code && error?.key == key, "\(error as Any)", sourceLocation: location)
    #expect(error?.cause as? Refusal == Refusal(text: text), "\(error as Any)", sourceLocation: location)
  }

  private static func run<Kind: CoderName>(_ kind: Kind.Type) throws {
    let open = try StoreLocation.memory.open()
    let store = Store<PickyFormat<Kind>>(in: open.database)
    func instance(_ text: String) -> PickyFormat<Kind>.Instance { .init(id: 1, nest: Nest(list: [Picky(text)])) }
    let refused = Nest(list: [Picky("unwritable")])
    try open.writing { tx in
      check(.encodingFailed, key: "1") { try store.persist(instance("unwritable"), in: tx) }
      check(.encodingFailed, key: "1") { try store.persist(instance("fine"), metadata: refused, in: tx) }
      check(.encodingFailed, key: "2") { try tx.set(refused, key: 2, in: "others") }
      try store.persist(instance("unreadable"), metadata: Nest(list: [Picky("unreadable")]), in: tx)
      check(.encodingFailed, key: "1") { try tx.replaceMetadata(refused, key: 1, in: "picky") }
      check(.encodingFailed, key: "1") { try tx.replaceObject(instance("unwritable"), key: 1, in: "picky") }
      check(.decodingFailed, key: "1") { _ = try store.load(1, in: tx) }
      check(.decodingFailed, key: "1") { _ = try store.metadata(of: 1, in: tx) }
    }
  }

  @Test func `the cause of an object or metadata that can't be encoded is its type's error`() throws {
    try Self.run(Binary.self)
    try Self.run(JSON.self)
    try Self.run(PropertyList.self)
  }

  @Test func `the cause of a change set object that can't be encoded or decoded is its type's error`()
    async throws
  {
    let open = try StoreLocation.memory.open()
    var iterator = open.database.changes().makeAsyncIterator()
    try open.writing { tx in
      Self.check(.encodingFailed, key: nil) { try tx.setCustomObject(Picky("unwritable")) }
      try tx.setCustomObject(Picky("unreadable"))
    }
    guard case .changes(let changes) = try await iterator.next() else { throw StoreStop() }
    Self.check(.decodingFailed, key: nil) { _ = try changes.customObject(as: Picky.self) }
  }
}
