import EngineTestSupport
import Foundation
import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of formats whose identifiers have another type than the stored keys.
struct KeyTypeTests {
  private struct Numbered: StoreFormat {
    struct Instance: Codable, Identifiable, Sendable { var id: Int }
    static let collection = "cars"
  }

  private struct Named: StoreFormat {
    struct Instance: Codable, Identifiable, Sendable { var id: String }
    static let collection = "cars"
  }

  private struct Unique: StoreFormat {
    struct Instance: Codable, Identifiable, Sendable { var id: UUID }
    static let collection = "cars"
  }

  private func check(_ error: DatabaseError?, _ here: String) {
    #expect(error?.code == .definitionDiffers)
    #expect(error?.collection == "cars")
    #expect(error?.message == "its key type is int on disk and \(here) in the definition", "\(error as Any)")
  }

  private func thrown(_ body: () throws -> Void) -> DatabaseError? {
    do { try body() } catch { return error as? DatabaseError }
    return nil
  }

  @Test func `opening names the stored type and the expected one, and changes nothing`() throws {
    let shared = try SharedBackend()
    let database = try shared.open(DatabaseDefinition { Numbered.self })
    try database.change { tx in _ = try Store<Numbered>(in: database).persist(Numbered.Instance(id: 7), in: tx) }
    try database.endNow()
    check(thrown { try shared.open(DatabaseDefinition { Named.self }).endNow() }, "string")
    check(thrown { try shared.open(DatabaseDefinition { Unique.self }).endNow() }, "uuid")
    check(thrown { try shared.readOnly().open(DatabaseDefinition { Named.self }).endNow() }, "string")
    let again = try shared.open(DatabaseDefinition { Numbered.self })
    #expect(try again.look { tx in try Store<Numbered>(in: again).load(7, in: tx)?.id } == 7)
    try again.endNow()
  }

  @Test func `a store that the database was not opened with names both types too`() throws {
    let database = try Database.inMemory()
    try database.change { tx in _ = try Store<Numbered>(in: database).persist(Numbered.Instance(id: 7), in: tx) }
    try database.endNow()
    let shared = try SharedBackend()
    let first = try shared.open()
    try first.change { tx in try tx.set(Numbered.Instance(id: 7), key: 7, in: "cars") }
    let cars = Store<Named>(in: first)
    check(thrown { _ = try first.look { tx in try cars.load("7", in: tx) } }, "string")
    check(thrown { _ = try first.change { tx in try cars.persist(Named.Instance(id: "7"), in: tx) } }, "string")
    try first.endNow()
  }
}
