internal import Synchronization

/// Whether decoding gives the fields of a type the values that are stored.
///
/// A type may decode in a way of its own. So the first rows of a format are decoded and compared with what is stored, and later
/// one in many: a field that differs among the first is never read without decoding, and one that differs later is an error, as rows may have been left out. Only real rows are decoded: the program's code gets no value that it has
/// not written. A type that changes some values says so by `StoreFormat.readsStoredFields`.
enum StoredFieldProof {
  private struct Key: Hashable {
    let format: ObjectIdentifier
    let path: FieldPath
  }

  /// How many rows have agreed; negative: one has not.
  private static let known = Mutex<[Key: Int]>([:])
  /// So many rows have to agree before others are not decoded.
  static var agreementsNeeded: Int { 16 }

  /// How many rows have agreed in all fields of a condition; negative: one has not.
  static func agreements<Format>(_ condition: StoredCondition<Format>) -> Int {
    known.withLock { known in
      condition.questions.fields.map { known[key($0.path, Format.self)] ?? 0 }.min() ?? 0
    }
  }

  /// Compares a row, whose fields the reader has found. Returns whether all agree.
  static func compare<Format>(
    _ condition: StoredCondition<Format>, _ row: StoredRow, _ access: RowAccess<Format>, _ reader: StoredReader,
    _ source: ByteSource
  ) throws -> Bool {
    let instance = try access.decode(row)
    var agree = true
    for (question, term) in zip(condition.questions.terms, condition.terms) {
      let field = condition.questions.fields[question.field]
      // What can't be read is decoded in any case, and shows nothing.
      guard let agrees = try? compare(question, term, field.kind, instance, reader, source) else { continue }
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
    _ question: StoredQuestions.Term, _ term: ConditionTerm<Instance>, _ kind: StoredKind, _ instance: Instance,
    _ reader: StoredReader, _ source: ByteSource
  ) throws -> Bool {
    if case .elements(let keys) = question.question {
      return try reader.hasElement(question.field, kind, source) { keys.contains($0) } == term.test(instance)
    }
    return try reader.withKey(question.field, kind, source) { $0 == term.key(instance) }
  }

  private static func key<Format>(_ path: FieldPath, _ format: Format.Type) -> Key {
    Key(format: ObjectIdentifier(format), path: path)
  }
}
