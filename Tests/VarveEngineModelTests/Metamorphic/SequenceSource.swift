import EngineTestSupport

@testable import EngineModel

/// A generator of sequences of operations: the same seed gives the same sequence.
struct SequenceSource {
  static let familySlots = 4
  static let cursorSlots = 3
  static let snapshotSlots = 3
  static let transactionSlots = 2

  private var random: SeededRandom
  private let keys: KeySource
  /// The running sums of the weights, from which a kind is drawn.
  private let sums: [Int]
  private let fillSize: Int
  /// For each slot, whether its transaction has begun and not ended.
  private var isBegun = Array(repeating: false, count: transactionSlots)
  /// For each slot, the keys that its transaction has read, or written if only writes can conflict.
  private var touched: [[(family: Int, key: SequenceOperation.Key)]] = Array(repeating: [], count: transactionSlots)
  private var isSerializable = Array(repeating: false, count: transactionSlots)
  /// The operations that follow next.
  private var queued: [SequenceOperation] = []
  /// The keys that were touched last: while a transaction is open, it and other operations prefer these.
  private var recent: [(family: Int, key: SequenceOperation.Key)] = []

  private init(seed: UInt64) {
    random = SeededRandom(seed: seed)
    keys = KeySource(&random)
    // Some sequences keep little in memory, and some fill the smallest memtables several times.
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
    if let queued = queued.popLast() { return queued }
    let point = random.below(sums[sums.count - 1])
    guard let index = sums.firstIndex(where: { point < $0 }), let kind = SequenceOperation.Kind(rawValue: index) else {
      fatalError("the last sum is above every point")
    }
    let operation = operation(kind)
    switch operation {
    case .put(let family, let key, _), .delete(let family, let key), .merge(let family, let key, _):
      noteRecent(family, key)
    case .beginTransaction(let slot, let isSerializable):
      touched[slot] = []
      self.isSerializable[slot] = isSerializable
    case .readTransaction(let slot, let family, let key): noteTouched(slot, isRead: true, family, key)
    case .writeTransaction(let slot, let changes):
      for change in changes { noteTouched(slot, isRead: false, change.family, change.key) }
    case .reopen: for slot in isBegun.indices { isBegun[slot] = false }
    default: break
    }
    return operation
  }

  private mutating func noteRecent(_ family: Int, _ key: SequenceOperation.Key) {
    recent.append((family, key))
    if recent.count > 3 { recent.removeFirst() }
  }

  private mutating func noteTouched(_ slot: Int, isRead: Bool, _ family: Int, _ key: SequenceOperation.Key) {
    noteRecent(family, key)
    if isRead == isSerializable[slot] { touched[slot].append((family, key)) }
  }

  private mutating func operation(_ kind: SequenceOperation.Kind) -> SequenceOperation {
    switch kind {
    case .put: put()
    case .delete: delete()
    case .deleteRange: deleteRange()
    case .merge: merge()
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
    case .scan:
      .scan(
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
    default: transactionOperation(kind)
    }
  }

  private mutating func transactionOperation(_ kind: SequenceOperation.Kind) -> SequenceOperation {
    // Most operations use a slot whose transaction has begun.
    let begun = isBegun.indices.filter { isBegun[$0] }
    let slot =
      begun.isEmpty || kind == .beginTransaction
      ? random.below(Self.transactionSlots) : begun[random.below(begun.count)]
    let kind = isBegun[slot] || random.oneIn(8) ? kind : .beginTransaction
    switch kind {
    case .beginTransaction: isBegun[slot] = true
    case .commitTransaction, .rollBackTransaction: isBegun[slot] = false
    default: break
    }
    switch kind {
    case .readTransaction:
      let (family, key) = location()
      return .readTransaction(slot, family: family, key: key)
    case .scanTransaction:
      return .scanTransaction(
        slot, family: family(), bounds: bounds(), isForward: random.oneIn(2), steps: random.below(12))
    case .writeTransaction: return .writeTransaction(slot, (0...random.below(3)).map { _ in transactionChange() })
    case .savepoint: return .savepoint(slot, isSet: random.oneIn(2))
    case .commitTransaction:
      // In one of three cases, another write precedes the commit.
      guard !touched[slot].isEmpty, random.oneIn(3) else { return .commitTransaction(slot) }
      queued = [.commitTransaction(slot)]
      let (family, key) = touched[slot][random.below(touched[slot].count)]
      return .put(family: family, key: key, value: value())
    case .rollBackTransaction: return .rollBackTransaction(slot)
    default: return .beginTransaction(slot, isSerializable: random.oneIn(2))
    }
  }

  // MARK: - Parts

  /// Returns a family; in half of the cases it is the one that always exists.
  private mutating func family() -> Int { random.oneIn(2) ? 0 : random.below(Self.familySlots) }

  private mutating func snapshot() -> Int? { random.oneIn(3) ? random.below(Self.snapshotSlots) : nil }

  private mutating func key() -> SequenceOperation.Key {
    random.oneIn(6) ? Self.fillKey(random.below(450)) : SequenceOperation.Key(keys.key(&random))
  }

  /// Returns the key of a number for `fill`.
  static func fillKey(_ number: Int) -> SequenceOperation.Key {
    SequenceOperation.Key(Array("user/\(1_000 + number)".utf8))
  }

  private static let onceCount = 6

  /// Returns the key of a number for `putOnce`.
  static func onceKey(_ number: Int) -> SequenceOperation.Key {
    SequenceOperation.Key(Array("user/once/\(number)".utf8))
  }

  /// Returns a range delete. Few have bounds in the wrong order, which are refused.
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

  /// Returns a family and a key. While a transaction is open, it is often one that was touched recently.
  private mutating func location() -> (Int, SequenceOperation.Key) {
    recent.isEmpty || !isBegun.contains(true) || random.oneIn(4)
      ? (family(), key()) : recent[random.below(recent.count)]
  }

  private mutating func put() -> SequenceOperation {
    let (family, key) = location()
    return .put(family: family, key: key, value: value())
  }

  private mutating func merge() -> SequenceOperation {
    let (family, key) = location()
    return .merge(family: family, key: key, operand: value())
  }

  private mutating func delete() -> SequenceOperation {
    let (family, key) = location()
    return .delete(family: family, key: key)
  }

  private mutating func transactionChange() -> SequenceOperation.Change {
    let (family, key) = location()
    switch random.below(8) {
    case 0: return SequenceOperation.Change(family: family, key: key)
    case 1: return SequenceOperation.Change(family: family, key: key, end: self.key())
    case 2, 3: return SequenceOperation.Change(family: family, key: key, value: value(), isOperand: true)
    default: return SequenceOperation.Change(family: family, key: key, value: value())
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
