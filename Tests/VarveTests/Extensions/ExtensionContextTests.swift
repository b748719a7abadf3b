import Testing

@testable import ObjectFixtures
@testable import Varve

/// What an extension works with in a transaction, and what becomes of that after it.
struct ExtensionContextTests {
  private struct Raw: DatabaseExtension {
    static let kind = "test.raw"
    let versionTag = "1"
    func makeTransaction(_ context: ExtensionContext) -> RawTransaction { RawTransaction(context) }
  }

  private final class RawTransaction: ExtensionTransaction {
    typealias Definition = Raw
    let context: ExtensionContext
    init(_ context: ExtensionContext) { self.context = context }
  }

  private let database: Database
  private let raw: Registered<Raw>

  init() throws {
    database = try Database.inMemory()
    raw = try database.register(Raw(), as: "raw")
  }

  @Test func `D8: an extension's part that is used after its transaction throws`() throws {
    var kept: [RawTransaction] = []
    try database.look { tx in kept.append(try tx[raw]) }
    try database.change { tx in kept.append(try tx[raw]) }
    try database.change { tx in
      try? tx.savepoint {
        kept.append(try tx[raw])
        throw Stop()
      }
    }
    #expect(kept.count == 3)
    for part in kept {
      #expect(errorCode { _ = try part.context.transaction } == .transactionEnded)
      #expect(errorCode { _ = try part.context.get("a", [1]) } == .transactionEnded)
      #expect(errorCode { try part.context.put("a", [1], [1]) } == .transactionEnded)
      #expect(errorCode { _ = try part.context.cursor("a") } == .transactionEnded)
      #expect(errorCode { _ = try part.context.setting("a") } == .transactionEnded)
      #expect(part.context.writeTransaction == nil)
    }
  }

  @Test func `D18c: a key or a value that is too long is refused where it is written`() throws {
    let limits = database.core.limits
    try database.change { tx in
      let context = try tx[raw].context
      let long = [UInt8](repeating: 1, count: limits.keySize + 1)
      #expect(errorCode { try context.put("a", long, [1]) } == .keyTooLong)
      #expect(errorCode { try context.add("c", 1, to: long) } == .keyTooLong)
      try context.put("a", Array(long.dropLast()), [1])
    }
    #expect(
      try database.look { tx in try tx[raw].context.get("a", [UInt8](repeating: 1, count: limits.keySize)) } == [1])
  }
}
