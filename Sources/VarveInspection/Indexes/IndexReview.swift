public import Varve

/// The differences between the rows of collections, their emitted values, and the entries of indexes, as found by
/// `DatabaseInspector.verify`.
public struct IndexReview: Sendable {
  /// A difference.
  public struct Difference: Hashable, Sendable, CustomStringConvertible {
    /// The kind of a difference.
    public enum Kind: String, Hashable, Sendable {
      /// The row has emitted a value, and the index has no entry for it, so queries by that value do not find the row.
      case missing
      /// The index has an entry that its row has not emitted, so a query finds a row that does not have the value or
      /// does not exist.
      case stale
      /// A direct index has content that differs from the row's current content.
      case content
      /// The index has an entry with invalid bytes.
      case unreadableEntry
      /// There is no record of what the row has emitted. Only the program can compute it.
      case notEmitted
      /// The emitted values of the row are damaged. Only the program can compute them.
      case unreadableEmitted
      /// There are emitted values of a row that does not exist.
      case withoutRow
      /// A run of a counted index has another number of entries than was counted, or its count is damaged.
      case count
    }

    /// The kind of the difference.
    public let kind: Kind
    /// The collection.
    public let collection: String
    /// The name of the index, or `nil` if the difference is between rows and their emitted values.
    public let index: String?
    /// The row, or `nil` for an unreadable entry.
    public let row: RowKey?
    /// The value as `KeyText` writes it, the bytes of an unreadable entry, what is wrong with a count, or `nil` if no
    /// value is concerned.
    public let value: String?

    /// A description such as `index "title" of books: the entry of the row 1 for "Emma" is missing`.
    public var description: String {
      let row = row?.text ?? ""
      let value = value ?? ""
      let text =
        switch kind {
        case .missing: "the entry of the row \(row) for \(value) is missing"
        case .stale: "an entry has the row \(row) for \(value), which the row has not emitted"
        case .content: "the entry of the row \(row) for \(value) has another content than the row"
        case .unreadableEntry: "the entry \(value) is not readable"
        case .notEmitted: "the row \(row) has no emitted values"
        case .unreadableEmitted: "the emitted values of the row \(row) are not readable"
        case .withoutRow: "the row \(row) has emitted values, and is not there"
        case .count: value
        }
      return (index.map { "index \"\($0)\" of " } ?? "indexes of ") + "\(collection): \(text)"
    }
  }

  /// The indexes that were compared.
  public internal(set) var indexes: [InspectedIndex] = []
  /// Indexes that could not be compared because they don't have all rows: see `InspectedIndex.state`.
  public internal(set) var skipped: [InspectedIndex] = []
  /// The number of rows compared with their emitted values.
  public internal(set) var rowCount = 0
  /// The number of entries compared.
  public internal(set) var entryCount = 0
  /// The number of differences.
  public internal(set) var differenceCount = 0
  /// The first differences, up to the requested limit.
  public internal(set) var differences: [Difference] = []
}

extension IndexReview: DifferenceReview {}

extension DatabaseInspector {
  /// Compares indexes with the rows of their collections, by the values that each row emitted when it was written.
  ///
  /// These conditions are checked:
  ///
  /// - Every emitted value has an entry.
  /// - Every entry has an emitted value.
  /// - Every row has emitted values.
  /// - Every row with emitted values exists.
  /// - Every entry of a direct index has the current content of its row.
  /// - The counts of a counted index are those of its entries.
  ///
  /// The code of the program is not needed, so it is not checked whether a row would emit the same values again:
  /// `Store.verifyIndexes` checks that. At most `limit` differences are listed; all are counted. `progress` gets the
  /// number of rows and entries examined, and the approximate total.
  ///
  /// Throws `.corruption` if a block can't be read, `.storage`. Complexity: O(rows + entries), with a read for each
  /// emitted value and each entry.
  public func verify(
    _ indexes: [InspectedIndex], limit: Int = 100, progress: (_ done: Int, _ total: Int) -> Void = { _, _ in }
  ) throws -> IndexReview {
    var review = IndexReview()
    review.skipped = indexes.filter { !$0.isComplete }
    review.indexes = indexes.filter(\.isComplete)
    let groups = Dictionary(grouping: review.indexes, by: \.extensionNumber).values.sorted {
      $0[0].collection < $1[0].collection
    }
    let collections = try groups.map { try knownCollection($0[0].collection) }
    // An index has about as many entries as the collection has rows.
    let total = zip(groups, collections).reduce(0) { $0 + ($1.1?.rowCount ?? 0) * ($1.0.count + 1) }
    var examined = ExaminedCount()
    try withoutActuallyEscaping(progress) { progress in
      for (group, collection) in zip(groups, collections) {
        var comparison = IndexComparison(group, group[0].emitted, collection, in: snapshot) {
          examined.add { progress($0, max($0, total)) }
        }
        let note = { (fault: IndexFault) in
          review.note(IndexReview.Difference(fault, of: group[0].collection), limit: limit)
        }
        try comparison.compareRows(comparesEntries: true, note)
        for index in group { try comparison.compareEntries(of: index, note) }
        for index in group where index.isCounted {
          var counts = RunReview(entries: index.entries, runs: index.runs, in: snapshot)
          try counts.run { review.note(IndexReview.Difference($0, of: index), limit: limit) }
        }
        review.rowCount += comparison.rowCount
        review.entryCount += comparison.entryCount
      }
    }
    return review
  }

  /// Returns the collection with a name, or `nil` if no row was ever put into it.
  func knownCollection(_ name: String) throws -> InspectedCollection? {
    do {
      return try collection(name)
    } catch let error as DatabaseError where error.code == .notFound {
      return nil
    }
  }
}

extension IndexReview.Difference {
  fileprivate init(_ fault: RunFault, of index: InspectedIndex) {
    self.init(kind: .count, collection: index.collection, index: index.name, row: nil, value: fault.text)
  }

  fileprivate init(_ fault: IndexFault, of collection: String) {
    func row(_ bytes: [UInt8]) -> RowKey { RowKey(collection: collection, bytes: bytes) }
    func about(_ kind: Kind, _ index: InspectedIndex?, _ row: RowKey?, _ value: [UInt8]?) -> Self {
      Self(kind: kind, collection: collection, index: index?.name, row: row, value: value.map { KeyText.text(of: $0) })
    }
    self =
      switch fault {
      case .missing(let index, let key, let value, _): about(.missing, index, row(key), value)
      case .content(let index, let key, let value, _): about(.content, index, row(key), value)
      case .stale(let index, _, let key, let value): about(.stale, index, row(key), value)
      case .unreadableEntry(let index, let entry): about(.unreadableEntry, index, nil, entry)
      case .notEmitted(let key): about(.notEmitted, nil, row(key), nil)
      case .unreadableEmitted(let key): about(.unreadableEmitted, nil, row(key), nil)
      case .withoutRow(let key, _): about(.withoutRow, nil, row(key), nil)
      }
  }
}
