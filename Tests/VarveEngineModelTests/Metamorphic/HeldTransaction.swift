import VarveEngine

/// A transaction of a sequence, and the prediction of whether its commit meets a conflict.
///
/// The engine may report more conflicts than there are: it sees a value that was written and removed since the
/// transaction began only while that is still stored, which depends on the time of a compaction. Such commits are
/// *unclear*, and are not tried. For all others it is known whether they are refused, whatever the settings.
final class HeldTransaction {
  /// A change of keys by another commit. A merge counts as a put.
  enum Change {
    case put([UInt8])
    case removal([UInt8])
    case range([UInt8], [UInt8])
  }

  /// The outcome of the end of a transaction.
  enum Outcome: CaseIterable {
    case committed, conflict, unclear

    /// The number of times that the outcome must have occurred in a run of the suite.
    var leastCount: Int { self == .committed ? 30 : 2 }
  }

  /// The keys that must not have changed: from `lower` (`nil`: the first) up to `upper` (`nil`: the end).
  struct Footprint {
    let family: FamilyID
    let lower: [UInt8]?
    let upper: [UInt8]?
    var includesUpper = false
    /// Whether the engine certainly checks all of the range.
    var isCertain = true

    func contains(_ key: [UInt8]) -> Bool {
      if let lower, key.lexicographicallyPrecedes(lower) { return false }
      guard let upper else { return true }
      return key.lexicographicallyPrecedes(upper) || (includesUpper && key == upper)
    }

    /// Returns whether the range contains the key, or is followed by it: the engine may check one key more than the
    /// range.
    func mayContain(_ key: [UInt8]) -> Bool { contains(key) || key == upper }

    func mayOverlap(_ from: [UInt8], _ to: [UInt8]) -> Bool {
      if let lower, to.lexicographicallyPrecedes(lower) { return false }
      if let upper, upper.lexicographicallyPrecedes(from) { return false }
      return true
    }
  }

  var transaction: OptimisticTransaction?
  let isSerializable: Bool
  /// A snapshot of the same sequence as the transaction's.
  let snapshot: EngineSnapshot
  /// The ranges that a serializable transaction has read.
  private var reads: [Footprint] = []
  /// The changes that the transaction has written, by family.
  private(set) var own: [(family: FamilyID, change: Change)] = []
  private var savepoints: [Int] = []
  /// The last change of each key since the transaction began, by family.
  private var changed: [FamilyID: [[UInt8]: Change]] = [:]
  private var ranges: [FamilyID: [([UInt8], [UInt8])]] = [:]

  init(_ engine: Engine, isSerializable: Bool) {
    transaction = engine.beginTransaction(isolation: isSerializable ? .serializable : .snapshot)
    snapshot = engine.snapshot()
    self.isSerializable = isSerializable
  }

  // MARK: - What it does

  func noteRead(_ footprint: Footprint) {
    guard isSerializable else { return }
    var footprint = footprint
    // A key whose value the transaction's own writes determine is not read.
    if own.contains(where: { $0.family == footprint.family }) { footprint.isCertain = false }
    reads.append(footprint)
  }

  func noteWrite(_ family: FamilyID, _ change: Change) { own.append((family, change)) }
  func noteSavepoint() { savepoints.append(own.count) }

  func noteRollback() {
    if let count = savepoints.popLast() { own.removeLast(own.count - count) }
  }

  // MARK: - What others do

  func noteCommitted(_ family: FamilyID, _ change: Change) {
    switch change {
    case .put(let key), .removal(let key): changed[family, default: [:]][key] = change
    case .range(let from, let to):
      ranges[family, default: []].append((from, to))
      for key in changed[family, default: [:]].keys
      where !key.lexicographicallyPrecedes(from) && key.lexicographicallyPrecedes(to) {
        changed[family, default: [:]][key] = .removal(key)
      }
    }
  }

  // MARK: - The end

  private var footprints: [Footprint] {
    if isSerializable { return reads }
    return own.map { write in
      switch write.change {
      case .put(let key), .removal(let key): Self.footprint(of: key, write.family)
      case .range(let from, let to): Footprint(family: write.family, lower: from, upper: to)
      }
    }
  }

  static func footprint(of key: [UInt8], _ family: FamilyID) -> Footprint {
    Footprint(family: family, lower: key, upper: key, includesUpper: true)
  }

  /// The families that the transaction has read or written.
  var families: Set<FamilyID> { Set(own.map(\.family)).union(reads.map(\.family)) }

  /// Returns the outcome that the commit must have. `wasThere` returns whether a key had a value when the transaction
  /// began.
  func expectedOutcome(wasThere: (FamilyID, [UInt8]) throws(EngineError) -> Bool) throws(EngineError) -> Outcome {
    if own.isEmpty { return .committed }
    var outcome = Outcome.committed
    for footprint in footprints {
      for (key, change) in changed[footprint.family] ?? [:] where footprint.mayContain(key) {
        // The removal of a key that did not exist need not be stored anywhere.
        var isStored = true
        if case .removal = change { isStored = try wasThere(footprint.family, key) }
        if isStored && footprint.isCertain && footprint.contains(key) { return .conflict }
        outcome = .unclear
      }
      for (from, to) in ranges[footprint.family] ?? [] where footprint.mayOverlap(from, to) { outcome = .unclear }
    }
    return outcome
  }
}
