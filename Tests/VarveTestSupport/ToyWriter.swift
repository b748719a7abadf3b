internal import Varve

/// Writes the changes of a batch into a content.
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
      let stamped = try stamp(key)
      changed = StorageRange(lower: stamped, upper: stamped + [0])
      content.families[family]?.rows.put(stamped, value)
    }
    changes.append(ToyChange(version: version, family: family, range: changed))
  }

  private func add(_ key: [UInt8], _ operand: [UInt8], to content: inout ToyContent) throws {
    guard content.families[family]?.options.isCounter == true else {
      throw DatabaseError(.invalidArgument, "an addition in a family without counters")
    }
    let before = content.families[family]?.rows.find(key)?.value ?? StorageBatch.counterBytes(0)
    guard let base = StorageBatch.counterNumber(before), let number = StorageBatch.counterNumber(operand) else {
      throw DatabaseError(.corruption, "a counter has not eight bytes")
    }
    content.families[family]?.rows.put(key, StorageBatch.counterBytes(base &+ number))
  }

  private func stamp(_ key: [UInt8]) throws -> [UInt8] {
    guard key.count >= 8 else {
      throw DatabaseError(.invalidArgument, "a stamped key of \(key.count) bytes; it has 8 at least")
    }
    return (0..<8).map { UInt8(truncatingIfNeeded: version >> (56 - 8 * $0)) } + key[8...]
  }
}

extension RawSpan {
  /// The bytes, copied.
  var bytes: [UInt8] { unsafe withUnsafeBytes { bytes in unsafe [UInt8](bytes) } }
}
