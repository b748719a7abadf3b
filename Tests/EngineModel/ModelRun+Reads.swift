import EngineTestSupport

@testable import VarveEngine

extension ModelRun {
  /// Reads once from the newest state or from a snapshot, and compares the result.
  func read(_ kind: OperationKind, _ family: Family, _ snapshot: HeldSnapshot?) throws {
    let state = snapshot?.model ?? model.state
    let key = drawKey()
    if snapshot == nil { note(kind, family, key) }
    let expected = state.families[family.model] == nil ? nil : state.get(family.model, key)
    switch kind {
    case .contains:
      let found = try engine.contains(key, in: family.engine, snapshot: snapshot?.engine)
      try require(found == (expected != nil), "contains(\(brief(key))) is \(found)")
    case .withValue:
      let found = try key.withUnsafeSpan { key in
        try engine.withValue(forKey: key, in: family.engine, snapshot: snapshot?.engine) { value in
          unsafe value.withUnsafeBytes { unsafe [UInt8]($0) }
        }
      }
      try require(found == expected, "withValue(\(brief(key))) is \(brief(found)), not \(brief(expected))")
    case .multiGet:
      let keys = [key] + (0..<(random.oneIn(4) ? random.below(40) : random.below(6))).map { _ in drawKey() }
      let found = try engine.multiGet(keys, in: family.engine, snapshot: snapshot?.engine)
      let expected = keys.map { state.families[family.model] == nil ? nil : state.get(family.model, $0) }
      try require(found == expected, "multiGet(\(keys.map(brief))) is \(found.map(brief)), not \(expected.map(brief))")
    default:
      let found = try engine.get(key, in: family.engine, snapshot: snapshot?.engine)
      try require(found == expected, "get(\(brief(key))) is \(brief(found)), not \(brief(expected))")
    }
  }

  // MARK: - Snapshots

  func takeSnapshot() {
    if snapshots.count == 8 { snapshots.remove(at: random.below(8)) }
    note(.takeSnapshot, nil, nil, snapshots.count)
    snapshots.append(HeldSnapshot(engine: engine.snapshot(), model: model.state))
  }

  func readSnapshot() throws {
    if snapshots.isEmpty { takeSnapshot() }
    let snapshot = snapshots[random.below(snapshots.count)]
    let family = drawFamily()
    let kinds: [OperationKind] = [.get, .multiGet, .contains, .withValue, .cursor]
    let kind = kinds[random.below(kinds.count)]
    note(.readSnapshot, family, nil, kind.rawValue)
    if kind == .cursor { try scan(family, snapshot) } else { try read(kind, family, snapshot) }
  }

  func releaseSnapshot() {
    if snapshots.isEmpty { takeSnapshot() }
    note(.releaseSnapshot)
    snapshots.remove(at: random.below(snapshots.count))
  }

  // MARK: - Cursors

  /// Creates a cursor, moves it a few times, and releases it.
  func scan() throws {
    let family = drawFamily()
    note(.cursor, family)
    try scan(family, nil)
  }

  private func scan(_ family: Family, _ snapshot: HeldSnapshot?) throws {
    let cursor = try openCursor(family, snapshot)
    for _ in 0...random.below(3) { try move(cursor) }
  }

  func holdCursor() throws {
    if cursors.count == 4 { cursors.remove(at: random.below(4)) }
    let family = drawFamily()
    note(.holdCursor, family)
    let snapshot = snapshots.isEmpty || random.oneIn(2) ? nil : snapshots[random.below(snapshots.count)]
    cursors.append(try openCursor(family, snapshot))
  }

  func moveHeldCursor() throws {
    if cursors.isEmpty { try holdCursor() }
    let cursor = cursors[random.below(cursors.count)]
    note(.moveHeldCursor)
    // The engine may take a cursor's view back at any time: the cursor still returns the same entry, and continues
    // from it.
    if random.oneIn(3) {
      engine.core.background.cursors.takeBack(age: UInt64(random.below(3)))
      for held in cursors {
        if let problem = held.mismatch() { throw ModelMismatch(description: "after its view was taken: " + problem) }
      }
    }
    try move(cursor)
  }

  private func openCursor(_ family: Family, _ snapshot: HeldSnapshot?) throws -> HeldCursor {
    let bounds = drawBounds()
    let state = snapshot?.model ?? model.state
    let cursor = HeldCursor(
      try engine.cursor(in: family.engine, bounds: bounds, snapshot: snapshot?.engine), rows(state, family, bounds))
    if let problem = cursor.mismatch() { throw ModelMismatch(description: problem) }
    return cursor
  }

  private func drawBounds() -> CursorBounds {
    switch random.below(6) {
    case 0: .prefix(source.prefix(&random))
    case 1: CursorBounds(lower: drawKey())
    case 2: CursorBounds(upper: drawKey())
    case 3: CursorBounds(lower: drawKey(), upper: drawKey())
    default: .all
    }
  }

  /// Seeks if the cursor is not at a row, and otherwise with a chance of one in three. Then takes steps in a
  /// direction that changes from time to time.
  private func move(_ cursor: HeldCursor) throws {
    if !cursor.isPlaced || random.oneIn(3) {
      switch random.below(6) {
      case 0: try cursor.seekToFirst()
      case 1: try cursor.seekToLast()
      case 2, 3: try cursor.seek(drawKey())
      default: try cursor.seekForPrevious(drawKey())
      }
      if let problem = cursor.mismatch() { throw ModelMismatch(description: "after a seek: " + problem) }
    }
    var isForward = random.oneIn(2)
    for _ in 0..<random.below(10) where cursor.isPlaced {
      if random.oneIn(4) { isForward.toggle() }
      try cursor.step(forward: isForward)
      if let problem = cursor.mismatch() {
        throw ModelMismatch(description: "after \(isForward ? "next" : "previous"): " + problem)
      }
    }
  }
}
