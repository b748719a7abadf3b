internal import Synchronization

/// Checks whether decoding gives the fields of a type the values that are stored.
///
/// A type may have its own decoding. So the first rows of a format are decoded and compared with the stored values, and
/// later one row in many. A field that differs in one of the first rows is never read without decoding; a field that
/// differs later is an error, because rows may have been left out. Only stored rows are decoded, so the program's code
/// receives no value that it has not written. A type that changes values when it decodes declares it by
/// `StoreFormat.readsStoredFields`.
enum StoredFieldProof {
  private struct Key: Hashable {
    let format: ObjectIdentifier
    let path: FieldPath
  }

  /// The number of rows that have agreed for a field, or a negative number if one did not.
  private static let known = Mutex<[Key: Int]>([:])
  /// The number of rows that have to agree before rows are no longer decoded.
  static var agreementsNeeded: Int { 16 }

  /// Returns the number of rows that have agreed in all fields of a condition, or a negative number if one did not.
  static func agreements<Format>(_ condition: StoredCondition<Format>) -> Int {
    known.withLock { known in
      condition.predicate.fields.map { known[key($0.path, Format.self)] ?? 0 }.min() ?? 0
    }
  }

  /// Compares a row, whose fields the reader has located, with its decoded instance. Returns whether all fields agree.
  static func compare<Format>(
    _ condition: StoredCondition<Format>, _ row: StoredRow, _ access: RowAccess<Format>, _ reader: StoredReader,
    _ source: ByteSource
  ) throws -> Bool {
    let instance = try access.decode(row)
    var agree = true
    for (storedTerm, term) in zip(condition.predicate.terms, condition.terms) {
      let field = condition.predicate.fields[storedTerm.field]
      // A field that cannot be read proves nothing; its row is decoded in any case.
      guard let agrees = try? compare(storedTerm, term, field.kind, instance, reader, source) else { continue }
      agree = agree && agrees
      known.withLock { known in
        let key = key(field.path, Format.self)
        let count = known[key] ?? 0
        known[key] = !agrees || count < 0 ? -1 : min(count + 1, agreementsNeeded)
      }
    }
    return agree
  }

  private static func compare<Instance>(
    _ storedTerm: StoredPredicate.Term, _ term: ConditionTerm<Instance>, _ kind: StoredKind, _ instance: Instance,
    _ reader: StoredReader, _ source: ByteSource
  ) throws -> Bool {
    if case .elements(let keys) = storedTerm.comparison {
      return try reader.hasElement(storedTerm.field, kind, source) { keys.contains($0) } == term.test(instance)
    }
    return try reader.withKey(storedTerm.field, kind, source) { $0 == term.key(instance) }
  }

  private static func key<Format>(_ path: FieldPath, _ format: Format.Type) -> Key {
    Key(format: ObjectIdentifier(format), path: path)
  }
}
