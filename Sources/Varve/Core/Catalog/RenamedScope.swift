/// The effect of renaming a collection on extensions, according to their records in the catalog.
///
/// ```
///  indexes of the collection            their record moves to the name that belongs to the new one
///  map from numbers to rows of both     stays: it has the number of the collection
///  others that receive either           are built again: what they keep may have the former name, or is of other rows
///  all others                           stay
/// ```
struct RenamedScope {
  let old: String
  let new: String

  enum Outcome {
    case stays
    /// The record moves to another name.
    case moves(ExtensionRecord, to: String)
    /// The record is removed, because the catalog has other extensions with the name that it would get. Those are built
    /// again.
    case isRemoved
    case isBuiltAgain(ExtensionRecord)
  }

  /// Returns the effect on an extension. `isTaken` returns whether the catalog has an extension with a name.
  func outcome(_ name: String, _ record: ExtensionRecord, isTaken: (String) -> Bool) -> Outcome {
    if name == IndexesName.name(for: old) {
      let target = IndexesName.name(for: new)
      return isTaken(target) ? .isRemoved : .moves(moved(record), to: target)
    }
    guard receives(record) else { return .stays }
    var record = record
    record.shadow = nil
    if !record.state.isFailed { record.state = .stale(nil) }
    return .isBuiltAgain(record)
  }

  /// Returns whether an extension with this record keeps data of rows of the collection under either name.
  private func receives(_ record: ExtensionRecord) -> Bool {
    guard let scope = CollectionScope(recordText: record.scope) else { return true }
    let (before, after) = (scope.contains(old), scope.contains(new))
    return record.kind == RowIDMap.kind ? before != after : before || after
  }

  private func moved(_ record: ExtensionRecord) -> ExtensionRecord {
    var record = record
    let scope = CollectionScope.only([new]).recordText
    record.scope = scope
    record.shadow?.scope = scope
    return record
  }
}
