/// Reads fields of the rows of a query: from the entries of an index if it covers the query, and from instances
/// otherwise.
struct QueryValues<Format: StoreFormat> {
  private let run: QueryRun<Format>
  /// For each requested field, its position among the fields of the index, or nil for the key of the row.
  ///
  /// The array itself is nil if the entries do not contain all requested fields, so that instances must be decoded.
  private let parts: [Int?]?

  /// Plans the query, and determines whether the entries of an index contain `fields`. A query without a condition
  /// reads an index that contains them rather than the rows.
  ///
  /// Returns nil if the collection does not exist.
  init?(_ query: StoreQuery<Format>, _ fields: [QueryOrder<Format.Instance>], _ tx: ReadTransaction) throws {
    let run = try QueryRun(query, tx) { planner in
      if Format.decodesEachRow { return try planner.plan() }
      return try planner.plan(byIndex: { Self.positions(of: fields, in: $0) != nil }) ?? planner.plan()
    }
    guard let run else { return nil }
    self.run = run
    parts = Self.covered(fields, run)
  }

  /// Returns the positions of the fields in the entries of the index, or nil if the index does not cover the query.
  ///
  /// The index covers the query if all of these conditions hold:
  ///
  /// - the plan has a single access, to this index, and neither tests rows nor sorts them afterward
  /// - the index has one entry for each row
  /// - each field of the index, and each of `fields`, is encoded as a single part of a key
  /// - each of `fields` is a field of the index without a prefix, or the identifier
  /// - rows that can't be decoded throw, so that no row is left out or replaced
  private static func covered(
    _ fields: [QueryOrder<Format.Instance>], _ run: QueryRun<Format>
  ) -> [Int?]? {
    let plan = run.plan
    guard !Format.decodesEachRow, !plan.filters, !plan.sorts, plan.branches.count == 1,
      plan.branches[0].accesses.count == 1,
      case .index(let slot) = plan.branches[0].first.source, let index = run.indexes?.definition.indexes[slot]
    else { return nil }
    return positions(of: fields, in: index.declaration)
  }

  /// Returns the positions of fields in the entries of an index, or nil if the entries do not contain all of them.
  private static func positions(
    of fields: [QueryOrder<Format.Instance>], in declaration: IndexDeclaration<Format.Instance>
  ) -> [Int?]? {
    let own = declaration.fields
    guard !declaration.kind.hasSeveralValues, fields.allSatisfy({ $0.keyType.isOnePart }),
      own.allSatisfy(\.keyType.isOnePart)
    else { return nil }
    var parts: [Int?] = []
    for field in fields {
      if let part = own.firstIndex(where: { $0.path == field.path && $0.prefix == nil }) {
        parts.append(part)
      } else if Format.isIdentifier(field.path) {
        parts.append(nil)
      } else {
        return nil
      }
    }
    return parts
  }

  /// Calls `body` with a field of each row, in the order of the query.
  func forEach<Value: KeyCodable>(
    _ path: KeyPath<Format.Instance, Value>, _ body: (Value) throws -> Void
  ) throws {
    guard let parts else { return try forEachInstance { try body($0[keyPath: path]) } }
    try forEachEntry { key, rowKey, isDescending in
      try body(try Self.value(parts[0], in: key, rowKey, isDescending))
    }
  }

  /// Calls `body` with two fields of each row, in the order of the query.
  func forEach<First: KeyCodable, Second: KeyCodable>(
    _ first: KeyPath<Format.Instance, First>, _ second: KeyPath<Format.Instance, Second>,
    _ body: (First, Second) throws -> Void
  ) throws {
    guard let parts else { return try forEachInstance { try body($0[keyPath: first], $0[keyPath: second]) } }
    try forEachEntry { key, rowKey, isDescending in
      try body(
        try Self.value(parts[0], in: key, rowKey, isDescending), try Self.value(parts[1], in: key, rowKey, isDescending)
      )
    }
  }

  private func forEachInstance(_ body: (Format.Instance) throws -> Void) throws {
    var scan = try run.begin()
    while let (instance, _, _) = try scan.nextRow() { try body(instance) }
  }

  /// Calls `body` with each entry, without copying it.
  private func forEachEntry(_ body: (RawSpan, Range<Int>, [Bool]) throws -> Void) throws {
    guard var entries = try run.entries(keysOnly: true).only, case .index(let slot) = run.plan.branches[0].first.source,
      let fields = run.indexes?.definition.indexes[slot].declaration.fields
    else { return }
    let isDescending = fields.map(\.isDescending)
    var remaining = run.query.maximum ?? .max
    while remaining > 0 {
      let found: Void? = try entries.withNext { key, _ in try body(key, try IndexEntry.rowKey(in: key), isDescending) }
      guard found != nil else { return }
      remaining -= 1
    }
  }

  /// Decodes a part of an entry, or the key of the row if `part` is nil.
  @inline(__always)
  private static func value<Value: KeyCodable>(
    _ part: Int?, in key: RawSpan, _ rowKey: Range<Int>, _ isDescending: [Bool]
  ) throws -> Value {
    guard let part else {
      var decoder = KeyDecoder(key.extracting(rowKey))
      return try decoder.decode()
    }
    var decoder = KeyDecoder(key.extracting(0..<rowKey.lowerBound))
    for _ in 0..<part { try decoder.skipPart() }
    return try isDescending[part] ? decoder.decode(descending: Value.self) : decoder.decode()
  }
}

extension KeyType {
  /// Whether keys of the type always consist of a single part.
  var isOnePart: Bool {
    let names = name.split { !$0.isLetter && !$0.isNumber }
    let single: Set<Substring> = [
      "string", "int", "bool", "data", "uuid", "date", "double", "decimal", "duration", "optional", "descending",
    ]
    return names.allSatisfy { single.contains($0) }
  }
}

extension KeyType {
  /// Whether every value of the type has a key. For example, the NaN of a double has none.
  var hasKeyForEachValue: Bool {
    let names = name.split { !$0.isLetter && !$0.isNumber }
    let safe: Set<Substring> = [
      "string", "int", "bool", "data", "uuid", "duration", "optional", "descending", "compound",
    ]
    return names.allSatisfy { safe.contains($0) }
  }
}
