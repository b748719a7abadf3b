/// What a serializable transaction has read: single keys, and stretches of keys that its cursors walked.
///
/// One transaction's, and its cursors'; nobody else sees it before the commit, which only reads it.
final class TransactionReads {
  struct FamilyReads {
    let name: String
    var keys: Set<[UInt8]> = []
    var ranges: [ReadRange] = []
  }

  private(set) var families: [FamilyID: FamilyReads] = [:]

  var isEmpty: Bool { families.isEmpty }

  /// A key of a family, which has this name.
  func note(_ key: [UInt8], in family: FamilyID, named name: String) {
    families[family, default: FamilyReads(name: name)].keys.insert(key)
  }

  /// A stretch that a cursor begins to walk.
  func beginRange(in family: FamilyID, named name: String) -> ReadRange {
    let range = ReadRange()
    families[family, default: FamilyReads(name: name)].ranges.append(range)
    return range
  }
}
