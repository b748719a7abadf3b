import EngineTestSupport
import Foundation
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@_spi(Extensions) @testable import Varve
@testable import VarveEngine
@testable import VarveInspection

/// Tests of damage to the counts of counted parts: it is found without the program's code, and repaired without a
/// build.
struct CountDamageTests {
  /// An extension whose counted part is data of the program.
  struct Handmade: DatabaseExtension {
    static let kind = "test.handmade"

    var configuration: ExtensionConfiguration {
      var configuration = ExtensionConfiguration(version: "1")
      configuration.scope = .only(["c"])
      configuration.build = .none
      configuration.catchesUp = true
      var part = PartDefinition("list")
      part.isDerived = false
      part.isCounted = true
      configuration.parts = [part]
      return configuration
    }

    func makeTransaction(_ context: ExtensionContext<Self>) throws -> HandmadeTransaction {
      HandmadeTransaction(context)
    }
  }

  final class HandmadeTransaction: ExtensionTransaction {
    typealias Definition = Handmade
    let context: ExtensionContext<Handmade>
    init(_ context: ExtensionContext<Handmade>) { self.context = context }
    var list: Part { get throws { try context.part("list") } }
    func didChange(_ change: borrowing RowChange) throws {}
    func removesAll(in collection: String?) throws -> Bool { true }
    func didMiss(_ key: RowKey, _ row: Row?) throws {}
  }

  private static let rowCount = 2_000
  private let directory: TemporaryDirectory
  private var path: String { directory.path + "/db" }
  private let kept = Kept()

  init() throws {
    directory = try TemporaryDirectory()
    try open { database, _, handmade in
      for batch in 0..<4 {
        try database.change { tx in
          for key in batch * 500..<batch * 500 + 500 {
            try tx.set("text \(key * 7 % 1_000)", key: key, in: "c")
            try tx[handmade].list.insert(Self.entry(key), [UInt8](repeating: 7, count: 40))
          }
        }
      }
      let engine = try #require(database.core.backend as? EngineBackend).engine
      try engine.flush()
      try engine.compact()
    }
    _ = kept.log.take()
  }

  private static func entry(_ number: Int) -> [UInt8] { BigEndian.bytes(UInt32(number * 7919 % 100_003)) }

  private func open(
    _ body: (Database, ExtensionHandle<Kept>, ExtensionHandle<Handmade>) throws -> Void
  ) throws {
    let database = try Database.open(at: path)
    do {
      let kept = try database.registerReady(kept, as: "kept")
      let handmade = try database.registerReady(Handmade(), as: "handmade")
      try body(database, kept, handmade)
    } catch {
      try? database.close()
      throw error
    }
    try database.close()
  }

  /// Expects that everything agrees with the rows, and that the counts are right after further changes, too.
  private func expectOrder(_ comment: Comment? = nil, listCount: Int? = rowCount) throws {
    try open { database, kept, handmade in
      try database.look { tx in
        #expect(try tx[kept].content() == KeptTransaction.wanted(tx), comment)
        try tx[handmade].list.requireRightCounts()
        if let listCount { #expect(try tx[handmade].list.count() == listCount, comment) }
      }
      try database.change { tx in
        for key in stride(from: 0, to: 2_000, by: 9) { try tx.set("new \(key)", key: key, in: "c") }
        for number in 200_000..<200_300 { try tx[handmade].list.insert(BigEndian.bytes(UInt32(number)), []) }
      }
      try database.look { tx in
        #expect(try tx[kept].content() == KeptTransaction.wanted(tx), comment)
        try tx[handmade].list.requireRightCounts()
      }
      try database.change { tx in
        for key in stride(from: 0, to: 2_000, by: 9) { try tx.set("text \(key * 7 % 1_000)", key: key, in: "c") }
        try tx[handmade].list.deleteRange(StorageRange(lower: BigEndian.bytes(UInt32(200_000))))
      }
    }
    #expect(try review().differenceCount == 0, comment)
  }

  private func review(limit: Int = 100) throws -> CountReview {
    let inspector = try DatabaseInspector.open(at: path)
    let review = try inspector.verifyCounts(limit: limit) { throw $0 }
    try inspector.close()
    return review
  }

  /// Changes families without the object database.
  private func tamper(
    _ body: (inout StorageBatch, [String: StorageFamily], any StorageBackend) throws -> Void
  ) throws {
    let backend = try BackendOpening(path: path, options: DatabaseOptions()).run()
    let families = Dictionary(uniqueKeysWithValues: try backend.families().map { ($0.name, $0) })
    var batch = StorageBatch()
    try body(&batch, families, backend)
    try backend.commit(batch, check: nil, durability: .process).wait()
    try backend.close()
  }

  private static func family(_ families: [String: StorageFamily], _ part: String) throws -> StorageFamily {
    try #require(families.values.first { $0.name.hasPrefix("x.") && $0.name.hasSuffix("." + part) })
  }

  // MARK: - Finding and recounting

  @Test func `the counts of all counted parts are compared with their entries`() throws {
    let review = try review()
    #expect(review.partCount == 2 && review.entryCount == 2 * Self.rowCount && review.differenceCount == 0)
    #expect(review.runCount > 2 * Self.rowCount / 128 && review.differences.isEmpty)
    #expect(try Database.recount(at: path).isEmpty)
    try expectOrder()
  }

  @Test(arguments: ["ranked", "list"])
  func `any damage to counts is found, and a recount makes them right and nothing else`(part: String) throws {
    let seed = UInt64.random(in: 0 ... .max)
    var random = SeededRandom(seed: seed)
    for round in 0..<TestScale.count(12) {
      let comment: Comment = "seed \(seed), round \(round)"
      try tamper { batch, families, backend in
        let runs = try Self.family(families, part + ".runs")
        for pair in try Contract.content(backend, runs) where random.below(4) == 0 {
          let (key, value) = (pair.key, pair.value)
          switch random.below(6) {
          case 0: batch.delete(key, in: runs)
          case 1: batch.put(key, [UInt8(random.below(128))], in: runs)
          case 2: batch.put(key, [], in: runs)
          case 3: batch.put(key, value.map { $0 ^ UInt8(1 + random.below(255)) }, in: runs)
          case 4: batch.put(key + [UInt8(random.below(256))], [UInt8(random.below(128))], in: runs)
          default:
            let value = [UInt8](repeating: 0xff, count: random.below(12))
            batch.put([UInt8(random.below(256))] + key, value, in: runs)
          }
        }
        batch.put([9], [9], in: runs)
      }
      let found = try review()
      let name = part == "list" ? "handmade" : "kept"
      #expect(found.differenceCount >= 1, comment)
      #expect(found.differences.allSatisfy { $0.extensionName == name && $0.part == part }, comment)
      #expect(found.differences.contains { $0.kind == .stray }, comment)
      // Neither a program nor a tool stops at such counts.
      try open { database, kept, handmade in
        try database.look { tx in
          let parts = [try tx[kept].part("ranked"), try tx[handmade].list]
          for part in parts { _ = errorCode { _ = try part.count() } }
          for part in parts { _ = errorCode { _ = try part.entry(at: random.below(2_000)) } }
        }
      }
      let recounted = try Database.recount(at: path)
      #expect(recounted.map(\.extensionName) == [name] && recounted.map(\.part) == [part], comment)
      #expect(recounted.first?.differenceCount == found.differenceCount, comment)
      #expect(try Database.recount(at: path).isEmpty, comment)
      #expect(try review().differenceCount == 0, comment)
      #expect(kept.log.take().given == 0, "nothing is built")
      try expectOrder(comment)
      _ = kept.log.take()
    }
  }

  @Test func `counts that are lost altogether are a finding, and are made again`() throws {
    try tamper { _, families, backend in try backend.dropFamily(try Self.family(families, "list.runs")) }
    let review = try review()
    #expect(review.differenceCount == 1 && review.differences.first?.kind == .missing)
    #expect(review.differences.first?.found == Self.rowCount && review.differences.first?.counted == nil)
    #expect(
      review.differences.map { "\($0)" } == [
        "extension \"handmade\", part \"list\": there are 2000 entries, and no counts"
      ])
    #expect(try Database.recount(at: path).map(\.part) == ["list"])
    try expectOrder()
  }

  @Test func `counts of entries that are all gone are removed`() throws {
    try tamper { batch, families, _ in batch.deleteRange(StorageRange(), in: try Self.family(families, "list")) }
    let review = try review(limit: 2)
    #expect(review.differences.count == 2 && review.differenceCount > 10)
    #expect(review.differences.allSatisfy { $0.kind == .count && $0.found == 0 })
    #expect(try Database.recount(at: path).map(\.differenceCount) == [review.differenceCount])
    try expectOrder(listCount: 0)
  }

  @Test func `a record that can't be read is reported, and left by a recount`() throws {
    try tamper { batch, families, _ in
      batch.put(CatalogKey.databaseExtension("other"), [5, 1, 2], in: try #require(families["catalog"]))
    }
    let inspector = try DatabaseInspector.open(at: path)
    var faults: [String] = []
    #expect(try inspector.verifyCounts { faults.append("\($0)") }.partCount == 2)
    try inspector.close()
    #expect(faults.count == 1 && faults[0].contains("record of extension \"other\" is damaged"))
    #expect(try Database.recount(at: path).isEmpty)
  }

  // MARK: - Damaged blocks

  /// Flips a byte of the first table of the family of a part. Returns the name of the family.
  private func damage(_ part: String) throws -> String {
    let engine = try Engine.open(at: path)
    let families = engine.core.tree.state.families.values
    let family = try #require(families.first { $0.name.hasPrefix("x.") && $0.name.hasSuffix("." + part) })
    let table = try #require(
      (0..<Limits.levelCount).lazy.compactMap { family.version.tables(level: $0).first { _ in true } }.first)
    let file = URL(fileURLWithPath: engine.core.tree.path(.table(table.number)))
    try engine.close()
    var bytes = try Data(contentsOf: file)
    bytes[20] ^= 0x10
    try bytes.write(to: file)
    return family.name
  }

  @Test(arguments: ["ranked.runs", "list.runs"])
  func `an extension that has lost only counts is counted again, and not built`(part: String) throws {
    let family = try damage(part)
    let given = try Database.giveUpDamagedBlocks(at: path)
    #expect(given.tables.map(\.family) == [family] && given.staleExtensions.isEmpty && !given.concernsRows)
    #expect(given.recountedExtensions == [part == "list.runs" ? "handmade" : "kept"])
    #expect(try review().differenceCount == 0)
    try open { _, _, _ in }
    #expect(kept.log.take().given == 0)
    try expectOrder()
    #expect(try Database.giveUpDamagedBlocks(at: path).recountedExtensions.isEmpty)
  }

  @Test func `a counted part of rows that has lost entries is built again with its counts`() throws {
    _ = try damage("ranked")
    let given = try Database.giveUpDamagedBlocks(at: path)
    #expect(given.staleExtensions == ["kept"])
    try open { _, _, _ in }
    #expect(kept.log.take().given == Self.rowCount)
    try expectOrder()
  }

  @Test func `a counted part that is data is counted again after it has lost entries`() throws {
    _ = try damage("list")
    let given = try Database.giveUpDamagedBlocks(at: path)
    #expect(given.staleExtensions == ["handmade"] && given.recountedExtensions == ["handmade"])
    let left = try review()
    #expect(left.differenceCount == 0 && left.entryCount < 2 * Self.rowCount && left.entryCount > Self.rowCount)
    try expectOrder(listCount: left.entryCount - Self.rowCount)
  }

  @Test func `counts are made again without any damage of blocks`() throws {
    try tamper { batch, families, _ in
      batch.put(RunFormat.key([]), [1], in: try Self.family(families, "list.runs"))
    }
    let given = try Database.giveUpDamagedBlocks(at: path)
    #expect(given.tables.isEmpty && given.recountedExtensions == ["handmade"] && given.staleExtensions.isEmpty)
    try expectOrder()
  }

  @Test func `a repair that was interrupted counts again at the next open`() throws {
    try tamper { batch, families, backend in
      _ = try DamageRepair.begin(try #require(backend as? EngineBackend), ["c"])
      batch.put(RunFormat.key([]), [0xff], in: try Self.family(families, "list.runs"))
      batch.put(RunFormat.key([]), [1], in: try Self.family(families, "ranked.runs"))
    }
    try expectOrder()
  }

  @Test func `a repair of the engine followed by one of the objects makes counts right`() throws {
    for part in ["list.runs", "ranked"] {
      _ = try damage(part)
      let report = try Engine.repair(at: path)
      #expect(!report.losses.isEmpty)
      let recounted = try Database.repairDamage(after: report.losses.map(\.family), at: path)
      #expect(recounted.map(\.part) == (part == "list.runs" ? ["list"] : []))
      try expectOrder()
      try open { database, _, _ in
        let engine = try #require(database.core.backend as? EngineBackend).engine
        try engine.flush()
        try engine.compact()
      }
    }
  }
}
