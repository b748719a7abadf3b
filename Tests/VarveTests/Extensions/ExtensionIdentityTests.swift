import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of which properties identify an extension on disk with the one that a program registers.
struct ExtensionIdentityTests {
  /// An extension that counts the rows that it received.
  private struct Counter: DatabaseExtension {
    static let kind = "test.counter"
    var version = "1"
    var scope = CollectionScope.all
    var dependencies: [String] = []
    var configuration: ExtensionConfiguration {
      var configuration = ExtensionConfiguration(version: version)
      configuration.scope = scope
      configuration.events = .inserts
      configuration.parts = [PartDefinition("count", .counters(.sum))]
      configuration.dependencies = dependencies
      return configuration
    }
    func makeTransaction(_ context: ExtensionContext<Self>) throws -> CounterTransaction {
      try CounterTransaction(context)
    }
  }

  private final class CounterTransaction: ExtensionTransaction {
    typealias Definition = Counter
    private let counts: Part
    init(_ context: ExtensionContext<Counter>) throws { counts = try context.part("count") }
    func didChange(_ change: borrowing RowChange) throws { try counts.add(1, to: [1]) }
    func count() throws -> Int64 { try counts.counter([1]) }
  }

  private struct Other: DatabaseExtension {
    static let kind = "test.other"
    let configuration = ExtensionConfiguration(version: "1")
    func makeTransaction(_ context: ExtensionContext<Self>) -> OtherTransaction { OtherTransaction() }
  }
  private final class OtherTransaction: ExtensionTransaction {
    typealias Definition = Other
    func didChange(_ change: borrowing RowChange) {}
  }

  private let kept = KeptDatabase()

  private func with<Result>(_ body: (Database) throws -> Result) throws -> Result {
    let database = try kept.open()
    let result = try body(database)
    try database.endNow()
    return result
  }

  private func fill() throws {
    try with { database in
      try database.change { tx in
        for key in 0..<100 { try tx.set(key, key: key, in: "rows") }
        for key in 0..<10 { try tx.set(key, key: key, in: "others") }
      }
    }
  }

  @Test func `another kind of extension under a name in use is refused, and changes nothing`() throws {
    try fill()
    let count = try with { database in
      let handle = try database.registerReady(Counter(), as: "mine")
      return try database.look { try $0[handle].count() }
    }
    #expect(count == 110)
    try with { database in
      let error = #expect(throws: DatabaseError.self) { try database.registerReady(Other(), as: "mine") }
      #expect(error?.code == .extensionMismatch)
      #expect(error?.message.contains("test.counter") == true && error?.message.contains("test.other") == true)
      let handle = try database.registerReady(Counter(), as: "mine")
      #expect(try database.look { try $0[handle].count() } == 110)
    }
  }

  @Test func `another scope rebuilds the extension`() throws {
    try fill()
    let scopes: [(CollectionScope, Int64)] = [
      (.all, 110), (.only(["others"]), 10), (.only(["others", "rows"]), 110), (.except(["others"]), 100),
    ]
    for (scope, wanted) in scopes {
      try with { database in
        let handle = try database.registerReady(Counter(scope: scope), as: "mine")
        #expect(try database.look { try $0[handle].count() } == wanted)
      }
    }
  }

  @Test func `a canonically equivalent spelling is the same name`() throws {
    let (composed, decomposed) = ("caf\u{E9}", "cafe\u{301}")
    #expect(composed == decomposed && Array(composed.utf8) != Array(decomposed.utf8))
    try fill()
    let launches = [
      (composed, "1", true), (decomposed, "1", false), (composed, "1", false), (decomposed, "2", true),
      (composed, "2", false), (decomposed, "2", false),
    ]
    for (name, version, isBuilt) in launches {
      try with { database in
        let handle = try database.registerReady(Counter(version: version), as: name)
        #expect((database.progress(of: name)?.rowsDone ?? 0 > 0) == isBuilt)
        #expect(database.knownExtensions == [composed])
        #expect(try database.look { try $0[handle].count() } == 110)
      }
    }
    try with { database in
      try database.registerReady(Counter(dependencies: []), as: decomposed)
      try database.registerReady(Counter(dependencies: [composed]), as: "child")
      #expect(try database.unregister(composed).sorted() == [composed, "child"].sorted())
      #expect(database.knownExtensions == [])
    }
  }

  @Test func `names and versions that do not fit into a record are refused`() throws {
    try with { database in
      for name in ["", "a=b", "a\u{1F}b"] {
        #expect(errorCode { try database.registerReady(Counter(), as: name) } == .invalidArgument, "\(name)")
        #expect(
          errorCode { try database.registerReady(Counter(version: name), as: "a") } == .invalidArgument, "\(name)")
      }
      try database.registerReady(Counter(), as: "a")
      try database.registerReady(Counter(), as: "ab")
      try database.registerReady(Counter(dependencies: ["ab"]), as: "dependent")
      #expect(try database.unregister("a") == ["a"])
      #expect(database.knownExtensions == ["ab", "dependent"])
    }
  }
}
