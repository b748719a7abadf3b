import EngineTestSupport

/// Sequences of operations: the same seed gives the same sequence.
struct SequenceSource {
  static let familySlots = 4
  static let cursorSlots = 3
  static let snapshotSlots = 3

  private var random: SeededRandom
  private let keys: KeySource
  /// Kinds below the sums of their weights.
  private let sums: [Int]
  private let fillSize: Int

  private init(seed: UInt64) {
    random = SeededRandom(seed: seed)
    keys = KeySource(&random)
    // Some sequences keep what is in memory small, and some pass the smallest memtables several times.
    fillSize = [40, 200, 900][random.below(3)]
    var total = 0
    var sums: [Int] = []
    for kind in SequenceOperation.Kind.allCases {
      total += kind.weight * [2, 4, 4, 8][random.below(4)] / 4
      sums.append(total)
    }
    self.sums = sums
  }

  static func sequence(seed: UInt64) -> [SequenceOperation] {
    var source = SequenceSource(seed: seed)
    let count = 60 + source.random.below(91)
    return (0..<count).map { _ in source.next() }
  }

  private mutating func next() -> SequenceOperation {
    let point = random.below(sums[sums.count - 1])
    guard let index = sums.firstIndex(where: { point < $0 }), let kind = SequenceOperation.Kind(rawValue: index) else {
      fatalError("the last sum is above every point")
    }
    return operation(kind)
  }

  private mutating func operation(_ kind: SequenceOperation.Kind) -> SequenceOperation {
    switch kind {
    case .put: .put(family: family(), key: key(), value: value())
    case .delete: .delete(family: family(), key: key())
    case .deleteRange: deleteRange()
    case .merge: .merge(family: family(), key: key(), operand: value())
    case .putStamped: .putStamped(family: family(), value: value(), isInKey: random.oneIn(2))
    case .putOnce: .putOnce(family: family(), random.below(Self.onceCount))
    case .removeOnce: .removeOnce(family: family(), random.below(Self.onceCount))
    case .batch: .batch(changes())
    case .fill:
      .fill(
        family: family(), first: random.below(300), count: 1 + random.below(150),
        value: SequenceOperation.Value(size: random.below(fillSize), seed: random.next() >> 48))
    case .get: .get(family: family(), key: key(), snapshot: snapshot())
    case .contains: .contains(family: family(), key: key(), snapshot: snapshot())
    case .multiGet: .multiGet(family: family(), keys: (0...random.below(5)).map { _ in key() }, snapshot: snapshot())
    case .walk:
      .walk(
        family: family(), bounds: bounds(), isForward: random.oneIn(2), steps: random.below(60), snapshot: snapshot())
    case .openCursor:
      .openCursor(random.below(Self.cursorSlots), family: family(), bounds: bounds(), snapshot: snapshot())
    case .moveCursor: .moveCursor(random.below(Self.cursorSlots), move())
    case .closeCursor: .closeCursor(random.below(Self.cursorSlots))
    case .takeSnapshot: .takeSnapshot(random.below(Self.snapshotSlots))
    case .releaseSnapshot: .releaseSnapshot(random.below(Self.snapshotSlots))
    case .sync: .sync
    case .flush: .flush
    case .compact:
      .compact(family: family(), from: random.oneIn(3) ? key() : nil, to: random.oneIn(3) ? key() : nil)
    case .createFamily: .createFamily(1 + random.below(Self.familySlots - 1))
    case .dropFamily: .dropFamily(1 + random.below(Self.familySlots - 1))
    case .reopen: .reopen
    case .refusal: .refusal(family: family())
    }
  }

  // MARK: - Parts

  /// Half of everything is in the family that is always there.
  private mutating func family() -> Int { random.oneIn(2) ? 0 : random.below(Self.familySlots) }

  private mutating func snapshot() -> Int? { random.oneIn(3) ? random.below(Self.snapshotSlots) : nil }

  private mutating func key() -> SequenceOperation.Key {
    random.oneIn(6) ? Self.fillKey(random.below(450)) : SequenceOperation.Key(keys.key(&random))
  }

  /// The keys of `fill`.
  static func fillKey(_ number: Int) -> SequenceOperation.Key {
    SequenceOperation.Key(Array("user/\(1_000 + number)".utf8))
  }

  private static let onceCount = 6

  /// The keys of `putOnce`.
  static func onceKey(_ number: Int) -> SequenceOperation.Key {
    SequenceOperation.Key(Array("user/once/\(number)".utf8))
  }

  /// Few have bounds in the wrong order, which is refused.
  private mutating func deleteRange() -> SequenceOperation {
    let bounds = [key(), key()]
    let isOrdered = !bounds[1].bytes.lexicographicallyPrecedes(bounds[0].bytes)
    let (from, to) = isOrdered || random.oneIn(20) ? (bounds[0], bounds[1]) : (bounds[1], bounds[0])
    return .deleteRange(family: family(), from: from, to: to)
  }

  private mutating func value() -> SequenceOperation.Value {
    let size = random.oneIn(40) ? 1_000 + random.below(20_000) : random.below(100)
    return SequenceOperation.Value(size: size, seed: random.next() >> 48)
  }

  private mutating func changes() -> [SequenceOperation.Change] {
    (0..<random.below(10)).map { _ in
      let key = key()
      guard random.oneIn(4) else { return SequenceOperation.Change(family: family(), key: key, value: value()) }
      let end = random.oneIn(2) ? self.key() : nil
      return SequenceOperation.Change(family: family(), key: key, end: end)
    }
  }

  private mutating func bounds() -> SequenceOperation.Bounds {
    switch random.below(6) {
    case 0: .init(prefix: SequenceOperation.Key(keys.prefix(&random)))
    case 1: .init(lower: key())
    case 2: .init(upper: key())
    case 3: .init(lower: key(), upper: key())
    default: .init()
    }
  }

  private mutating func move() -> SequenceOperation.Move {
    switch random.below(8) {
    case 0: .first
    case 1: .last
    case 2: .seek(key())
    case 3: .seekForPrevious(key())
    case 4, 5: .previous(1 + random.below(8))
    default: .next(1 + random.below(8))
    }
  }
}
