import EngineTestSupport

@testable import VarveEngine

/// An error that describes what went wrong.
struct CrashFailure: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}

/// The guarantees of the engine when the power failed or the process died.
struct CrashGuarantee: Sendable {
  /// The last batch that was begun; a later one cannot be there.
  var submitted = 0
  /// The last logged batch that must be there after the death of the process, with all before it.
  var process = 0
  /// The last logged batch that must be there after a loss of power, with all before it.
  var power = 0
  /// The last batch that was flushed: batches up to it that are not in the log must be there.
  var unlogged = 0
  /// The batches that an earlier recovery found to be lost, which must stay lost.
  var gone: Set<Int> = []
  /// The number of times that the third family was created or dropped, in turn: acknowledged here, and begun below.
  var familyChanges = 0
  var familyChangesBegun = 0
  /// The identifiers of the generations of the third family.
  var familyIDs: [Int: FamilyID] = [:]

  /// Returns the generation of the third family after a number of changes, or `nil` if it does not exist.
  static func generation(after changes: Int) -> Int? { changes % 2 == 1 ? changes / 2 : nil }

  /// Returns the last logged batch that must be there after a crash.
  func logged(after policy: CrashPolicy) -> Int { policy == .processKill ? max(process, power) : power }
}

/// A model that is simple enough to be obviously correct: the content of each family is the result of its batches, in
/// order.
struct CrashModel {
  /// All batches that were begun, by number from 1.
  var batches: [CrashBatch] = []

  /// The content that was found in a database.
  struct Found: Equatable {
    var present: Set<Int> = []
    var generation: Int?
  }

  // MARK: Against an engine

  /// Reads the whole database, and throws if its content is not one that a crash may leave.
  func check(_ engine: Engine, _ guarantee: CrashGuarantee, logged: Int) throws -> Found {
    let pair = engine.families.first { $0.name == CrashBatch.Role.pair.name }
    var found = Found(present: try Self.markers(engine))
    try checkPresent(found.present, guarantee, logged: logged)
    try expected(.main, found.present).compare(engine, engine.defaultFamily)
    if let pair {
      try expected(.pair, found.present).compare(engine, pair)
    } else if !found.present.isEmpty {
      throw CrashFailure("the family pair is gone, and \(found.present.count) batches are there")
    }
    let extra = engine.families.first { $0.name == CrashBatch.Role.extra.name }
    found.generation = try checkFamilies(extra, guarantee)
    if let extra {
      try expected(.extra, found.present, generation: found.generation).compare(engine, extra)
    }
    return found
  }

  /// Checks the lasting families at a snapshot that was taken after the batches `present`, all of which are there.
  func check(_ engine: Engine, _ snapshot: EngineSnapshot, present: Set<Int>) throws {
    for (role, family) in [(CrashBatch.Role.main, engine.defaultFamily), (.pair, try engine.family(named: "pair"))] {
      try expected(role, present).compare(engine, family, snapshot: snapshot)
    }
  }

  private static func markers(_ engine: Engine) throws -> Set<Int> {
    var present: Set<Int> = []
    var cursor = try engine.cursor(bounds: .prefix([CrashBatch.markerPrefix]))
    try cursor.seekToFirst()
    while cursor.isValid {
      let key = cursor.keyBytes
      guard let number = CrashBatch.number(ofMarker: key) else { throw CrashFailure("an unknown key \(key)") }
      present.insert(number)
      try cursor.next()
    }
    return present
  }

  /// Checks that acknowledged batches are there, that lost ones stay lost, and that the others that were logged are a
  /// prefix.
  private func checkPresent(_ present: Set<Int>, _ guarantee: CrashGuarantee, logged: Int) throws {
    var firstMissing: Int?
    for batch in batches[..<guarantee.submitted] {
      let number = batch.number
      let isPresent = present.contains(number)
      if guarantee.gone.contains(number) {
        if isPresent { throw CrashFailure("batch \(number) is there again, and an earlier recovery cut it") }
        continue
      }
      guard batch.isLogged else {
        if !isPresent && number <= guarantee.unlogged {
          throw CrashFailure("batch \(number), unlogged and flushed, is gone (flushed: \(guarantee.unlogged))")
        }
        continue
      }
      if isPresent, let firstMissing {
        throw CrashFailure("batch \(number) is there, and \(firstMissing) before it is not")
      }
      if !isPresent {
        if number <= logged { throw CrashFailure("batch \(number) is gone, and \(logged) was acknowledged") }
        firstMissing = firstMissing ?? number
      }
    }
    if let late = present.max(), late > guarantee.submitted { throw CrashFailure("batch \(late) was never begun") }
  }

  private func checkFamilies(_ extra: ColumnFamily?, _ guarantee: CrashGuarantee) throws -> Int? {
    let possible = (guarantee.familyChanges...guarantee.familyChangesBegun).map { CrashGuarantee.generation(after: $0) }
    guard let extra else {
      guard possible.contains(nil) else { throw CrashFailure("the family of generation \(possible) is gone") }
      return nil
    }
    guard let generation = possible.compactMap({ $0 }).first else { throw CrashFailure("a dropped family is back") }
    if let id = guarantee.familyIDs[generation], id != extra.id {
      throw CrashFailure("the third family has id \(extra.id) instead of \(id)")
    }
    return generation
  }

  // MARK: Content

  /// Returns the content that the batches `present` leave in a family.
  func expected(_ role: CrashBatch.Role, _ present: Set<Int>, generation: Int? = nil) -> CrashContent {
    var content = CrashContent(role: role)
    for number in present.sorted() where number <= batches.count {
      let batch = batches[number - 1]
      if role == .extra && (batch.extra == nil || batch.extra != generation) { continue }
      content.apply(batch)
    }
    return content
  }
}
