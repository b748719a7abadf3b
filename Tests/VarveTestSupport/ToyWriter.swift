internal import Varve

/// Applies the changes of a batch to a content.
struct ToyWriter {
  let version: UInt64
  let family: UInt32

  func apply(
    _ operation: StorageBatch.Operation, _ key: [UInt8], _ value: [UInt8], to content: inout ToyContent,
    _ changes: inout [ToyChange]
  ) throws {
    guard content.families[family] != nil else { throw ToyBackend.dropped(family) }
    var changed = StorageRange(lower: key, upper: key + [0])
    switch operation {
    case .put: content.families[family]?.rows.put(key, value)
    case .delete: content.families[family]?.rows.remove(key)
    case .singleDelete:
      guard content.families[family]?.rows.find(key)?.writeCount == 1 else {
        throw DatabaseError(.invalidArgument, "a single delete of a key that was not put exactly once")
      }
      content.families[family]?.rows.remove(key)
    case .deleteRange:
      changed = StorageRange(lower: key, upper: value)
      content.families[family]?.rows.remove(changed)
    case .deleteToEnd:
      changed = StorageRange(lower: key)
      content.families[family]?.rows.remove(changed)
    case .add: try add(key, value, to: &content)
    case .putStamped:
      let location = unsafe StorageBatch.stampPosition(value.span.bytes)
      let (key, value) = try stamped(key, Array(value.dropFirst(StorageBatch.stampSize)), at: location)
      changed = StorageRange(lower: key, upper: key + [0])
      content.families[family]?.rows.put(key, value)
    }
    changes.append(ToyChange(version: version, family: family, range: changed))
  }

  private func add(_ key: [UInt8], _ operand: [UInt8], to content: inout ToyContent) throws {
    guard let rule = content.families[family]?.options.counter else {
      throw DatabaseError(.invalidArgument, "an addition in a family without counters")
    }
    let before = content.families[family]?.rows.find(key)?.value
    let base = before.flatMap { rule.number($0) }
    guard let number = rule.number(operand), (before == nil) == (base == nil) else {
      throw DatabaseError(.corruption, "a counter has not eight bytes")
    }
    content.families[family]?.rows.put(key, rule.bytes(rule.taking(number, into: base)))
  }

  private func stamped(_ key: [UInt8], _ value: [UInt8], at location: StampPosition) throws -> ([UInt8], [UInt8]) {
    let stamp = (0..<8).map { UInt8(truncatingIfNeeded: version >> (56 - 8 * $0)) }
    func stamping(_ bytes: [UInt8], _ offset: Int) throws -> [UInt8] {
      guard offset >= 0, offset <= bytes.count - 8 else {
        throw DatabaseError(.invalidArgument, "a stamp at byte \(offset) of \(bytes.count)")
      }
      return bytes[..<offset] + stamp + bytes[(offset + 8)...]
    }
    switch location {
    case .key(let offset): return (try stamping(key, offset), value)
    case .value(let offset): return (key, try stamping(value, offset))
    }
  }
}

extension RawSpan {
  /// A copy of the bytes.
  var bytes: [UInt8] { unsafe withUnsafeBytes { bytes in unsafe [UInt8](bytes) } }
}
