extension IndexesTransaction {
  /// Returns the keys of the entries that a row has in an index, including the writes of the transaction. Complexity:
  /// one lookup; neither the row nor other entries are read.
  func entries(of rowKey: [UInt8], in slot: Int) throws -> [[UInt8]] {
    let emitted = part(definition.emittedPart)
    guard let bytes = try emitted.lastValue(of: rowKey, isAppended: context.writeTransaction != nil) else { return [] }
    return try EmittedValues.values(of: definition.plans[slot].number, in: bytes).map { value in
      var entry: [UInt8] = []
      entry.reserveCapacity(value.count + rowKey.count + IndexEntry.sizeSizeMaximum)
      entry += value
      IndexEntry.append(rowKey, to: &entry)
      return entry
    }
  }

  /// Returns a number that is another one after an index was built again, or nil while it is built.
  func generation(of slot: Int) throws -> UInt64? {
    let part = part(slot)
    guard try part.isReady else { return nil }
    // A program that follows the database does not know since when the index is ready: each build has a family.
    if let since = context.readySince(part: slot) { return since.number }
    return try part.readFamily.map { UInt64($0.number) } ?? 0
  }
}
