/// Scans the rows of index entries as instances, in the order of the entries.
struct IndexScan<Format: StoreFormat>: SeekableScan {
  private let reading: AnswerReading<Format>
  private let source: any StorageReading
  private var rows: IndexedRowScan
  private let isDescending: Bool
  /// The check of the rows' values, if the index has only prefixes of values.
  private var check: ValueCheck<Format.Instance>?
  private let declaration: IndexDeclaration<Format.Instance>
  /// The number of instances that may still be returned.
  private var remaining: Int

  init(
    _ reading: AnswerReading<Format>, _ source: any StorageReading, _ entries: FamilyCursor,
    _ declaration: IndexDeclaration<Format.Instance>, _ selection: IndexSelection<Format>
  ) throws {
    self.reading = reading
    self.source = source
    self.declaration = declaration
    isDescending = selection.isDescending
    check = try selection.check(declaration)
    remaining = selection.limit ?? .max
    // If values are checked or rows are left out, more entries may be read than rows are returned.
    rows = IndexedRowScan(
      entries, isDirect: declaration.isDirect, hasSeveralValues: declaration.kind.hasSeveralValues,
      limit: check == nil && !Format.decodesEachRow ? selection.limit : nil, of: reading.info, from: source)
  }

  mutating func next() throws -> (element: Format.Instance, byteCount: Int)? {
    while remaining > 0, let (key, bytes) = try rows.next() {
      guard let instance = try reading.instance(key, bytes, source) else { continue }
      if let check, try !check.holds(for: instance) { continue }
      remaining -= 1
      return (instance, key.count + bytes.count)
    }
    return nil
  }

  /// Moves to a value of the index.
  mutating func seek(to value: some KeyCodable, keyLimit: Int) throws {
    let bytes = try value.encoded()
    let end = KeyRange.end(ofParts: bytes)
    rows.seek(to: isDescending ? end : declaration.lowerEnd(bytes))
    if isDescending { check?.upper = end } else { check?.lower = bytes }
  }

  func count() throws -> Int {
    if check == nil, !Format.decodesEachRow { return try rows.count() }
    var (copy, count) = (self, 0)
    while try copy.next() != nil { count += 1 }
    return count
  }
}
