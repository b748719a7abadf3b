/// Fields of the rows of a query: from the entries of an index where these say all that is asked, and from instances otherwise.
struct QueryValues<Format: StoreFormat> {
  private let run: QueryRun<Format>
  /// Where each field stands in the entries that are read: nil, in the key of the row. Nil for all: they are not there.
  private let parts: [Int?]?

  /// `fields` have no more than one part each.
  init?(_ query: StoreQuery<Format>, _ fields: [QueryOrder<Format.Instance>], _ tx: ReadTransaction) throws {
    guard let run = try QueryRun(query, tx) else { return nil }
    self.run = run
    parts = Self.covered(fields, run)
  }

  /// A plan with one access and nothing to ask covers the fields of its index, and the identifier.
  private static func covered(
    _ fields: [QueryOrder<Format.Instance>], _ run: QueryRun<Format>
  ) -> [Int?]? {
    let plan = run.plan
    guard !plan.filters, !plan.sorts, plan.branches.count == 1, plan.branches[0].accesses.count == 1,
      case .index(let slot) = plan.branches[0].first.source, let index = run.indexes?.definition.indexes[slot],
      !index.declaration.kind.hasSeveralValues, fields.allSatisfy({ $0.keyType.isOnePart })
    else { return nil }
    let own = index.declaration.fields
    guard own.allSatisfy(\.keyType.isOnePart) else { return nil }
    var parts: [Int?] = []
    for field in fields {
      if let part = own.firstIndex(where: { $0.path == field.path }) {
        parts.append(part)
      } else if Format.isIdentifier(field.path) {
        parts.append(nil)
      } else {
        return nil
      }
    }
    return parts
  }

  /// Whether no row is read.
  var isCovered: Bool { parts != nil }

  /// Calls `body` for each row, in the order of the query, with a reader of its fields.
  func forEach(_ body: (QueryFieldReader<Format>) throws -> Void) throws {
    guard let parts else {
      var scan = try run.begin()
      while let (instance, _, _) = try scan.nextRow() { try body(QueryFieldReader(.instance(instance))) }
      return
    }
    var remaining = run.query.maximum ?? .max
    guard var entries = try run.entries(keysOnly: true).only else { return }
    let own = run.indexes?.definition.indexes
    guard case .index(let slot) = run.plan.branches[0].first.source, let fields = own?[slot].declaration.fields else { return }
    let isDescending = fields.map(\.isDescending)
    let isUsed = fields.indices.map { parts.contains($0) }
    var bounds: [Range<Int>] = Array(repeating: 0..<0, count: fields.count)
    while remaining > 0 {
      let found: Void? = try entries.withNext { key, _ in
        let rowKey = try IndexEntry.rowKey(in: key)
        var decoder = KeyDecoder(key.extracting(0..<rowKey.lowerBound))
        for index in fields.indices {
          let start = decoder.offset
          try decoder.skipPart()
          if isUsed[index] { bounds[index] = start..<decoder.offset }
        }
        let bytes = key.copied
        try body(QueryFieldReader(.entry(bytes, parts.map { part in
          part.map { (bounds[$0], isDescending[$0]) } ?? (rowKey, false)
        })))
      }
      guard found != nil else { return }
      remaining -= 1
    }
  }
}

/// The fields of one row.
struct QueryFieldReader<Format: StoreFormat> {
  fileprivate enum Source {
    case instance(Format.Instance)
    /// A copied entry, and where each field is in it and whether it is the other way.
    case entry([UInt8], [(range: Range<Int>, isDescending: Bool)])
  }

  private let source: Source

  fileprivate init(_ source: Source) { self.source = source }

  /// The field with a number among those that were asked for, at a path.
  func value<Value: KeyCodable>(_ index: Int, _ path: KeyPath<Format.Instance, Value>) throws -> Value {
    switch source {
    case .instance(let instance): return instance[keyPath: path]
    case .entry(let bytes, let fields):
      let (range, isDescending) = fields[index]
      var decoder = unsafe KeyDecoder(bytes.span.bytes.extracting(range))
      return try isDescending ? decoder.decode(descending: Value.self) : decoder.decode()
    }
  }
}

extension KeyType {
  /// Whether keys of the type are one part, and not several.
  var isOnePart: Bool {
    let names = name.split { !$0.isLetter && !$0.isNumber }
    let single: Set<Substring> = [
      "string", "int", "bool", "data", "uuid", "date", "double", "decimal", "duration", "optional", "descending",
    ]
    return names.allSatisfy { single.contains($0) }
  }
}
