/// An operation on an engine as data: a sequence of operations can be printed, read, cut and run again.
///
/// Families, cursors and snapshots are named by slots. Every operation is defined in every state (one on an empty
/// slot does nothing, and its answer says so), so every part of a sequence is a sequence: a failing one can be made
/// smaller by leaving operations out.
enum SequenceOperation: Hashable, Sendable, Codable {
  case put(family: Int, key: Key, value: Value)
  case delete(family: Int, key: Key)
  case deleteRange(family: Int, from: Key, to: Key)
  case merge(family: Int, key: Key, operand: Value)
  /// A put whose commit's sequence number is written into its key, or otherwise into its value.
  case putStamped(family: Int, value: Value, isInKey: Bool)
  /// A put of a key that is put again only after it was removed, as single deletes require.
  case putOnce(family: Int, Int)
  /// A single delete of such a key, if it exists.
  case removeOnce(family: Int, Int)
  case batch([Change])
  /// A batch of puts to ascending keys.
  case fill(family: Int, first: Int, count: Int, value: Value)
  case get(family: Int, key: Key, snapshot: Int?)
  case contains(family: Int, key: Key, snapshot: Int?)
  case multiGet(family: Int, keys: [Key], snapshot: Int?)
  /// A cursor over bounds that is moved `steps` times from one end.
  case scan(family: Int, bounds: Bounds, isForward: Bool, steps: Int, snapshot: Int?)
  case openCursor(Int, family: Int, bounds: Bounds, snapshot: Int?)
  case moveCursor(Int, Move)
  case closeCursor(Int)
  case takeSnapshot(Int)
  case releaseSnapshot(Int)
  case sync
  case flush
  case compact(family: Int, from: Key?, to: Key?)
  case createFamily(Int)
  case dropFamily(Int)
  case reopen
  /// A write that exceeds a limit.
  case refusal(family: Int)
  case beginTransaction(Int, isSerializable: Bool)
  case readTransaction(Int, family: Int, key: Key)
  case scanTransaction(Int, family: Int, bounds: Bounds, isForward: Bool, steps: Int)
  case writeTransaction(Int, [Change])
  /// Sets a savepoint, or rolls back to the last one.
  case savepoint(Int, isSet: Bool)
  case commitTransaction(Int)
  case rollBackTransaction(Int)

  /// An entry of a batch: a put of its value, a delete of a range up to its end, or a delete.
  struct Change: Hashable, Sendable, Codable {
    var family: Int
    var key: Key
    var value: Value?
    var end: Key?
    /// Whether the value is an operand for the family's merge operator.
    var isOperand: Bool?
  }

  struct Bounds: Hashable, Sendable, Codable {
    var lower: Key?
    var upper: Key?
    /// The prefix of the keys. If it is set, the other two properties are not used.
    var prefix: Key?
  }

  enum Move: Hashable, Sendable, Codable {
    case first, last
    case seek(Key)
    case seekForPrevious(Key)
    case next(Int)
    case previous(Int)
  }

  /// The bytes of a key, which are encoded as hexadecimal digits.
  struct Key: Hashable, Sendable, Codable {
    var bytes: [UInt8]

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    init(from decoder: any Decoder) throws {
      let container = try decoder.singleValueContainer()
      let digits = Array(try container.decode(String.self).utf8)
      bytes = try stride(from: 0, to: digits.count, by: 2).map { index in
        let pair = String(decoding: digits[index..<min(index + 2, digits.count)], as: UTF8.self)
        guard pair.utf8.count == 2, let byte = UInt8(pair, radix: 16) else {
          throw DecodingError.dataCorruptedError(
            in: container, debugDescription: "a key is pairs of hexadecimal digits")
        }
        return byte
      }
    }

    func encode(to encoder: any Encoder) throws {
      var container = encoder.singleValueContainer()
      try container.encode(bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined())
    }
  }

  /// The bytes of a value, stored as their count and the seed that they are computed from.
  struct Value: Hashable, Sendable, Codable {
    var size: Int
    var seed: UInt64

    var bytes: [UInt8] {
      let word = (seed &+ 1) &* 0x9e37_79b9_7f4a_7c15
      // Partly compressible: a word is repeated, and replaced from time to time.
      return (0..<size).map { index in
        UInt8(truncatingIfNeeded: (word &+ UInt64(index >> 6)) >> (UInt64(index & 7) * 8))
      }
    }
  }
}

extension SequenceOperation {
  /// The kind of an operation, for the mix.
  enum Kind: Int, CaseIterable {
    case put, delete, deleteRange, merge, putStamped, putOnce, removeOnce, batch, fill, get, contains, multiGet, scan,
      openCursor, moveCursor, closeCursor
    case takeSnapshot, releaseSnapshot, sync, flush, compact, createFamily, dropFamily, reopen, refusal
    case beginTransaction, readTransaction, scanTransaction, writeTransaction, savepoint, commitTransaction
    case rollBackTransaction

    /// The weight with which the kind is drawn, relative to the others.
    var weight: Int {
      switch self {
      case .put: 180
      case .delete: 90
      case .batch: 80
      case .fill: 70
      case .deleteRange, .merge: 50
      case .putOnce, .removeOnce: 40
      case .get: 110
      case .scan, .moveCursor: 70
      case .flush, .compact: 55
      case .contains, .multiGet, .openCursor, .takeSnapshot: 40
      case .createFamily: 30
      case .putStamped, .releaseSnapshot, .closeCursor: 36
      case .dropFamily, .refusal, .rollBackTransaction: 48
      case .sync, .reopen: 40
      case .beginTransaction: 36
      case .writeTransaction: 240
      case .commitTransaction: 80
      case .readTransaction: 90
      case .scanTransaction, .savepoint: 45
      }
    }
  }

  var kind: Kind {
    switch self {
    case .put: .put
    case .delete: .delete
    case .deleteRange: .deleteRange
    case .merge: .merge
    case .putStamped: .putStamped
    case .putOnce: .putOnce
    case .removeOnce: .removeOnce
    case .batch: .batch
    case .fill: .fill
    case .get: .get
    case .contains: .contains
    case .multiGet: .multiGet
    case .scan: .scan
    case .openCursor: .openCursor
    case .moveCursor: .moveCursor
    case .closeCursor: .closeCursor
    case .takeSnapshot: .takeSnapshot
    case .releaseSnapshot: .releaseSnapshot
    case .sync: .sync
    case .flush: .flush
    case .compact: .compact
    case .createFamily: .createFamily
    case .dropFamily: .dropFamily
    case .reopen: .reopen
    case .refusal: .refusal
    case .beginTransaction: .beginTransaction
    case .readTransaction: .readTransaction
    case .scanTransaction: .scanTransaction
    case .writeTransaction: .writeTransaction
    case .savepoint: .savepoint
    case .commitTransaction: .commitTransaction
    case .rollBackTransaction: .rollBackTransaction
    }
  }

  /// Operations with a smaller effect of the same kind, which a shrinker tries as replacements.
  var simpler: [SequenceOperation] {
    switch self {
    case .put(let family, let key, let value) where value.size > 0:
      [.put(family: family, key: key, value: Value(size: value.size / 2, seed: value.seed))]
    case .batch(let changes) where !changes.isEmpty:
      [.batch(Array(changes.prefix(changes.count / 2))), .batch(Array(changes.dropFirst(max(1, changes.count / 2))))]
        + changes.indices.map { index in
          var fewer = changes
          fewer.remove(at: index)
          return .batch(fewer)
        }
    case .fill(let family, let first, let count, let value) where count > 0:
      [
        .fill(family: family, first: first, count: count / 2, value: value),
        .fill(family: family, first: first + count / 2, count: count - max(1, count / 2), value: value),
        .fill(family: family, first: first, count: count - 1, value: value),
      ]
        + (value.size > 0
          ? [.fill(family: family, first: first, count: count, value: Value(size: value.size / 2, seed: value.seed))]
          : [])
    case .multiGet(let family, let keys, let snapshot) where keys.count > 1:
      keys.map { .get(family: family, key: $0, snapshot: snapshot) }
    case .scan(let family, let bounds, let isForward, let steps, let snapshot):
      steps > 0
        ? [.scan(family: family, bounds: bounds, isForward: isForward, steps: steps / 2, snapshot: snapshot)] : []
    case .writeTransaction(let slot, let changes) where changes.count > 1:
      changes.indices.map { index in
        var fewer = changes
        fewer.remove(at: index)
        return .writeTransaction(slot, fewer)
      }
    case .scanTransaction(let slot, let family, let bounds, let isForward, let steps) where steps > 0:
      [.scanTransaction(slot, family: family, bounds: bounds, isForward: isForward, steps: steps / 2)]
    case .moveCursor(let slot, .next(let count)) where count > 1: [.moveCursor(slot, .next(count / 2))]
    case .moveCursor(let slot, .previous(let count)) where count > 1: [.moveCursor(slot, .previous(count / 2))]
    case .compact(let family, let from, let to) where from != nil || to != nil:
      [.compact(family: family, from: nil, to: nil)]
    default: []
    }
  }
}
