import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of the context of an extension in a transaction, and of its use after the transaction.
struct ExtensionContextTests {
  private struct Raw: DatabaseExtension {
    static let kind = "test.raw"
    var configuration: ExtensionConfiguration {
      var configuration = ExtensionConfiguration(version: "1")
      configuration.parts = [PartDefinition("a"), PartDefinition("c", .counters(.sum))]
      return configuration
    }
    func makeTransaction(_ context: ExtensionContext<Self>) throws -> RawTransaction { try RawTransaction(context) }
  }

  private final class RawTransaction: ExtensionTransaction {
    typealias Definition = Raw
    let context: ExtensionContext<Raw>
    let values: Part
    let counters: Part
    init(_ context: ExtensionContext<Raw>) throws {
      self.context = context
      values = try context.part("a")
      counters = try context.part("c")
    }
    func didChange(_ change: borrowing RowChange) {}
  }

  private let database: Database
  private let raw: ExtensionHandle<Raw>

  init() throws {
    database = try Database.inMemory()
    raw = try database.registerReady(Raw(), as: "raw")
  }

  @Test func `an extension's part that is used after its transaction throws`() throws {
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
    for raw in kept {
      #expect(errorCode { _ = try raw.context.transaction } == .transactionEnded)
      #expect(errorCode { _ = try raw.values.get([1]) } == .transactionEnded)
      #expect(errorCode { try raw.values.put([1], [1]) } == .transactionEnded)
      #expect(errorCode { _ = try raw.values.cursor() } == .transactionEnded)
      #expect(errorCode { try raw.counters.add(1, to: [1]) } == .transactionEnded)
      #expect(errorCode { _ = try raw.context.setting("a") } == .transactionEnded)
      #expect(raw.context.writeTransaction == nil)
    }
  }

  @Test func `a key or a value that is too long is refused when it is written`() throws {
    let limits = database.core.limits
    try database.change { tx in
      let raw = try tx[raw]
      let long = [UInt8](repeating: 1, count: limits.keySize + 1)
      #expect(errorCode { try raw.values.put(long, [1]) } == .keyTooLong)
      #expect(errorCode { try raw.counters.add(1, to: long) } == .keyTooLong)
      try raw.values.put(Array(long.dropLast()), [1])
    }
    let longest = [UInt8](repeating: 1, count: limits.keySize)
    #expect(try database.look { tx in try tx[raw].values.get(longest) } == [1])
  }
}
