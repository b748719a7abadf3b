import EngineTestSupport
import VarveEngine

extension ModelRun {
  private static let familyCountMaximum = 5

  func flush() throws {
    note(.flush)
    try engine.flush()
  }

  func compact() throws {
    let family = drawFamily()
    note(.compact, family)
    switch random.below(8) {
    case 0: try engine.compact(family: family.engine)
    case 1: try engine.compact(family: family.engine, from: drawKey())
    case 2: try engine.compact(family: family.engine, to: drawKey())
    default:
      let keys = [drawKey(), drawKey()].sorted { $0.lexicographicallyPrecedes($1) }
      try engine.compact(family: family.engine, from: keys[0], to: keys[1])
    }
  }

  func createFamily() throws {
    if families.count == Self.familyCountMaximum { try dropFamily() }
    let used = Set(families.map(\.engine.name))
    guard let name = (0...Self.familyCountMaximum).map({ "family \($0)" }).first(where: { !used.contains($0) }) else {
      fatalError("there are more names than families")
    }
    note(.createFamily, nil, nil, families.count)
    let compression = random.oneIn(2) ? nil : CompressionKind.allCases[random.below(3)]
    let rule = random.oneIn(3) ? nil : MergeRule.allCases[random.below(MergeRule.allCases.count)]
    let isVolatile = random.oneIn(4)
    let made = try engine.createFamily(
      name, options: FamilyOptions(compression: compression, mergeOperator: rule?.rawValue, isVolatile: isVolatile))
    try require(made.id > familyIDMaximum, "the family's id \(made.id) was used before")
    familyIDMaximum = made.id
    families.append(Family(engine: made, model: "\(name)/\(made.id)", rule: rule, isVolatile: isVolatile))
    model.createFamily(families[families.count - 1].model)
  }

  /// Drops a family. Its open cursors stay usable, and its handle is kept to check that it is refused.
  func dropFamily() throws {
    if families.count == 1 { try createFamily() }
    let family = families.remove(at: 1 + random.below(families.count - 1))
    note(.dropFamily, family)
    try engine.dropFamily(family.engine)
    model.dropFamily(family.model)
    dropped.append(family.engine)
    if dropped.count > 4 { dropped.removeFirst() }
  }

  func reopen() throws {
    note(.reopen)
    releaseAll()
    let names = families.map(\.engine.name)
    let before = Dictionary(uniqueKeysWithValues: families.map { ($0.engine.id, $0) })
    dropped = []
    families = []
    world.watch.detach()
    try engine.close()
    engine = try Engine.open(at: "/db", options: Self.drawOptions(&random), environment: world.environment)
    let found = engine.families
    try require(Set(found.map(\.name)) == Set(names), "families \(found.map(\.name)) instead of \(names)")
    families = found.map {
      Family(
        engine: $0, model: $0.id == 0 ? "default" : "\($0.name)/\($0.id)", rule: before[$0.id]?.rule,
        isVolatile: before[$0.id]?.isVolatile ?? false)
    }
    try require(
      families.allSatisfy { model.state.families[$0.model] != nil }, "families came back under other ids")
    for family in families where family.isVolatile {
      model.createFamily(family.model)
      putCounts[family.model] = nil
    }
    // A clean close keeps the sequence numbers of commits that were not logged and of empty ones, too.
    let visible = engine.visibleSequence
    try require(
      visible == lastSequence, "the last sequence is \(visible.value) after reopening instead of \(lastSequence.value)")
    lastSequence = visible
    if random.oneIn(8) { try compareAll() }
  }

  /// Catches a follower up, and compares all of its rows with the model's, except those that are not logged.
  func follow() throws {
    note(.follow)
    var options = EngineOptions()
    options.memtableSize = 64 << 10
    options.mergeOperators = [ChainOperator()]
    let follower =
      try self.follower ?? Engine.follow(at: "/db", options: options, environment: world.readerEnvironment)
    self.follower = follower
    let before = follower.engine.visibleSequence
    let seen = try follower.catchUp()
    try require(seen >= before && seen <= lastSequence, "a follower is at \(seen.value) of \(lastSequence.value)")
    let found = follower.engine.families
    try require(Set(found.map(\.id)) == Set(families.map(\.engine.id)), "a follower has other families")
    for family in families {
      guard family.isVolatile || !hasUnlogged, let reader = found.first(where: { $0.id == family.engine.id }) else {
        continue
      }
      let expected = family.isVolatile ? [] : rows(model.state, family)
      let cursor = HeldCursor(try follower.engine.cursor(in: reader), expected)
      try cursor.seekToFirst()
      while true {
        if let problem = cursor.mismatch() {
          throw ModelMismatch(description: "a follower's family \(family.model): " + problem)
        }
        guard cursor.isPlaced else { break }
        try cursor.step(forward: true)
      }
    }
    if random.oneIn(4) {
      try follower.close()
      self.follower = nil
    }
  }

  func releaseAll() {
    snapshots = []
    cursors = []
  }

  /// Compares every row of every family by a forward scan.
  func compareAll() throws {
    for family in families {
      let cursor = HeldCursor(try engine.cursor(in: family.engine), rows(model.state, family))
      try cursor.seekToFirst()
      while true {
        if let problem = cursor.mismatch() { throw ModelMismatch(description: "family \(family.model): " + problem) }
        guard cursor.isPlaced else { break }
        try cursor.step(forward: true)
      }
    }
  }
}
