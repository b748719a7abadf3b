import EngineTestSupport

@testable import VarveEngine

/// What went wrong, in words.
struct CrashFailure: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}

/// What the engine had guaranteed when the power failed or the process died.
struct CrashGuarantee: Sendable {
  /// Batches up to this number were begun; a later one can't be there.
  var submitted = 0
  /// Logged batches up to this number must be there after the death of the process.
  var process = 0
  /// Logged batches up to this number must be there after a loss of power.
  var power = 0
  /// Batches that are not in the log must be there up to this number: they were flushed.
  var unlogged = 0
  /// What an earlier recovery found gone stays gone.
  var gone: Set<Int> = []
  /// How often the third family was made or dropped, in turn: acknowledged, and begun.
  var familyChanges = 0
  var familyChangesBegun = 0
  /// The ids that the generations of the third family got.
  var familyIDs: [Int: FamilyID] = [:]

  /// The generation of the third family after so many changes; nil where it does not exist.
  static func generation(after changes: Int) -> Int? { changes % 2 == 1 ? changes / 2 : nil }

  /// The guarantee that counts after a crash.
  func logged(after policy: CrashPolicy) -> Int { policy == .processKill ? max(process, power) : power }
}

/// The trivially right model: the content of each family is what its batches leave, in order.
struct CrashModel {
  /// All batches that were begun, by number from 1.
  var batches: [CrashBatch] = []

  /// What was found in a database.
  struct Found: Equatable {
    var present: Set<Int> = []
    var generation: Int?
  }

  // MARK: Against an engine

  /// Reads the whole database, and throws where it is not what a crash may leave.
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

  /// What a snapshot of after `count` batches, all of which are there, shows of the lasting families.
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

  /// Acknowledged is there, gone stays gone, and of the rest of the logged ones a prefix.
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

  /// What the batches that are there leave in a family.
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
