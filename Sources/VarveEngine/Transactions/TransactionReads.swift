/// The keys that a serializable transaction has read, and the ranges that its cursors have iterated.
///
/// Belongs to one transaction and its cursors; the commit only reads it.
final class TransactionReads {
  struct FamilyReads {
    let name: String
    var keys: Set<[UInt8]> = []
    var ranges: [ReadRange] = []
  }

  private(set) var families: [FamilyID: FamilyReads] = [:]

  var isEmpty: Bool { families.isEmpty }

  /// Adds a key of the family with this name.
  func note(_ key: [UInt8], in family: FamilyID, named name: String) {
    families[family, default: FamilyReads(name: name)].keys.insert(key)
  }

  /// Adds and returns a range that a cursor begins to iterate.
  func beginRange(in family: FamilyID, named name: String) -> ReadRange {
    let range = ReadRange()
    families[family, default: FamilyReads(name: name)].ranges.append(range)
    return range
  }
}
