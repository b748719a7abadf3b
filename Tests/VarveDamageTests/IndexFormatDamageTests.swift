import EngineTestSupport
import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of the index data that tools read: definitions, entries, and emitted values.
struct IndexFormatDamageTests {
  @Test func `a definition has the kind, the key type, and whether entries include their rows`() throws {
    for named in try DeclaredIndexes<VolumeFormat>.found().list {
      let definition = try #require(IndexFormat.Definition(named.definition))
      #expect(
        definition.kind == named.declaration.kind.rawValue && definition.keyType == named.declaration.keyType.name)
      #expect(definition.isDirect == named.declaration.isDirect)
      #expect(definition.isUnique == named.declaration.kind.isUnique)
    }
    // A custom key type may have any name.
    let odd = try #require(IndexFormat.Definition("oneToOne|a|b|true|where false"))
    #expect(odd.keyType == "a|b" && odd.isDirect && odd.isUnique)
    #expect(IndexFormat.Definition("later|string|false")?.isUnique == false)
    for wrong in ["", "index", "index|string", "index|true", "|"] { #expect(IndexFormat.Definition(wrong) == nil) }
  }

  @Test func `parts of entries are named like their indexes, and others are shared by all`() {
    #expect(IndexFormat.index(ofPart: IndexFormat.partName(of: "a")) == "a")
    #expect(IndexFormat.index(ofPart: "emitted") == nil && IndexFormat.index(ofPart: "i") == nil)
  }

  @Test(arguments: [1, 239, 240, 65_279])
  func `an entry is the value and the key of its row`(size: Int) throws {
    let row = [UInt8](repeating: 7, count: size)
    let entry = IndexFormat.entry(value: [1, 2, 3], row: row)
    let parts = try IndexFormat.parts(ofEntry: entry)
    #expect(parts.value == [1, 2, 3] && parts.row == row)
  }

  @Test func `arbitrary bytes are values or an error`() {
    let seed = UInt64.random(in: 0 ... .max)
    var random = SeededRandom(seed: seed)
    var (valid, damaged) = (0, 0)
    for _ in 0..<20_000 {
      // Small numbers are likely sizes and counts.
      let bytes = (0..<Int.random(in: 0..<24, using: &random)).map { _ in
        UInt8.random(in: 0...(Bool.random(using: &random) ? 3 : 255), using: &random)
      }
      do {
        let groups = try IndexFormat.emitted(bytes)
        #expect(groups.allSatisfy { $0.values.allSatisfy { $0.count <= bytes.count } })
        valid += 1
      } catch let error as DatabaseError {
        if error.code == .corruption { damaged += 1 }
      } catch {
        Issue.record("seed \(seed): \(error)")
      }
      let code = errorCode { _ = try IndexFormat.parts(ofEntry: bytes) }
      #expect(code == nil || code == .corruption, "seed \(seed)")
    }
    #expect(valid > 0 && valid + damaged == 20_000, "seed \(seed): \(valid), \(damaged)")
  }
}
