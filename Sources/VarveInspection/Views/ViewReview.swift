public import Varve

/// The differences between what views keep of rows, the rows, and the counts, as found by `DatabaseInspector.verify`.
public struct ViewReview: Sendable {
  /// A difference.
  public struct Difference: Hashable, Sendable, CustomStringConvertible {
    /// The kind of a difference.
    public enum Kind: String, Hashable, Sendable {
      /// The row has a place, and no group has it there.
      case entryIsMissing
      /// A group has the row at a place that is not the row's.
      case entryIsExtra
      /// The row is in the view, and does not exist.
      case rowIsMissing
      /// A group has another number of rows than the counts say, or the counts are damaged.
      case countDiffers
      /// An entry can't be read.
      case isDamaged
    }

    /// The kind of the difference.
    public let kind: Kind
    /// The name of the view.
    public let view: String
    /// The row, or `nil` if no row is concerned or its key can't be read.
    public let row: RowKey?
    /// What was found and what was expected.
    public let text: String

    /// A description such as `view "byAuthor": the row books/1: no group has it at its place`.
    public var description: String {
      "view \"\(view)\": " + (row.map { "the row \($0.collection)/\($0.text): " } ?? "") + text
    }
  }

  /// The views that were compared.
  public internal(set) var views: [InspectedView] = []
  /// Views that could not be compared, because they don't have all rows or are in the memory of the program.
  public internal(set) var skipped: [InspectedView] = []
  /// The number of places of rows that were compared.
  public internal(set) var rowCount = 0
  /// The number of entries of groups that were compared.
  public internal(set) var entryCount = 0
  /// The number of differences.
  public internal(set) var differenceCount = 0
  /// The first differences, up to the requested limit.
  public internal(set) var differences: [Difference] = []
}

extension ViewReview: DifferenceReview {}

extension DatabaseInspector {
  /// Compares what views keep: the places of rows with the entries of groups, both with the rows, and the entries with
  /// the counts.
  ///
  /// The code of the program is not needed, so it is not checked whether a closure would place a row where it is:
  /// `verify` of the view does that in the program. At most `limit` differences are listed; all are counted. `progress`
  /// receives the number of places and entries that were examined.
  ///
  /// Throws `.corruption` if a block can't be read, `.storage`. Complexity: O(n) of the rows in the views, with some
  /// lookups for each.
  public func verify(
    _ views: [InspectedView], limit: Int = 100, progress: (_ done: Int) -> Void = { _ in }
  ) throws -> ViewReview {
    var review = ViewReview()
    review.skipped = views.filter { !$0.isComplete }
    review.views = views.filter(\.isComplete)
    let names = try collectionNames()
    var collections: [String: InspectedCollection] = [:]
    for collection in try self.collections(fault: { _ in }) { collections[collection.name] = collection }
    var examined = ExaminedCount()
    for view in review.views {
      var comparison = ViewComparison(inspector: self, view: view, names: names, collections: collections)
      try comparison.run {
        examined.add(progress)
      } _: { difference in
        review.note(difference, limit: limit)
      }
      review.rowCount += comparison.rowCount
      review.entryCount += comparison.entryCount
    }
    return review
  }
}

/// The comparison of one view.
private struct ViewComparison {
  let inspector: DatabaseInspector
  let view: InspectedView
  let names: [UInt32: String]
  let collections: [String: InspectedCollection]
  var rowCount = 0
  var entryCount = 0

  private typealias Report = (ViewReview.Difference) throws -> Void
  private var snapshot: any StorageSnapshot { inspector.snapshot }

  init(
    inspector: DatabaseInspector, view: InspectedView, names: [UInt32: String],
    collections: [String: InspectedCollection]
  ) {
    self.inspector = inspector
    self.view = view
    self.names = names
    self.collections = collections
  }

  mutating func run(didExamine: () -> Void, _ report: (ViewReview.Difference) throws -> Void) throws {
    try comparePlaces(didExamine, report)
    try compareEntries(didExamine, report)
    try compareUnplaced(report)
    guard view.counts != nil else { return }
    var counts = RunReview(entries: view.rows, runs: view.runs, in: snapshot)
    try counts.run { fault in try report(difference(.countDiffers, nil, fault.text)) }
  }

  private func difference(_ kind: ViewReview.Difference.Kind, _ row: [UInt8]?, _ text: String) -> ViewReview.Difference
  {
    let key = row.flatMap { DatabaseInspector.rowKey($0, names) }
    let unknown = key == nil ? row.map { "the row \(EntryText.hexadecimal($0)): " } : nil
    return ViewReview.Difference(kind: kind, view: view.name, row: key, text: (unknown ?? "") + text)
  }

  private func value(of key: [UInt8], in family: StorageFamily?) throws -> [UInt8]? {
    try family.flatMap { try snapshot.value(of: key, in: $0) }
  }

  /// Compares the place of each row with the entry there, and with the row.
  private mutating func comparePlaces(_ didExamine: () -> Void, _ report: Report) throws {
    guard let places = view.places else { return }
    var cursor = FamilyCursor(StorageRange(), in: places, of: snapshot, isReverse: false)
    while let (row, bytes) = try cursor.next() {
      didExamine()
      rowCount += 1
      switch ViewFormat.place(bytes) {
      case .damaged: try report(difference(.isDamaged, row, "its place can't be read"))
      case .unplaced:
        if try value(of: row, in: view.unplaced) == nil {
          try report(difference(.entryIsMissing, row, "it can't be placed, and is not listed"))
        }
      case .placed(let key, let size):
        if try value(of: key, in: view.rows) != row {
          try report(difference(.entryIsMissing, row, "no group has it at its place"))
        } else if let found = try inspector.groupSize(of: key, row, in: view), found != size {
          try report(
            difference(.isDamaged, row, "its place says a group of \(size) bytes, and its entry one of \(found)"))
        }
      }
      if try !exists(row) { try report(difference(.rowIsMissing, row, "it is in the view, and does not exist")) }
    }
  }

  /// Returns whether a row exists. The row of a damaged collection counts as one that does.
  private func exists(_ row: [UInt8]) throws -> Bool {
    guard let key = DatabaseInspector.rowKey(row, names) else { return false }
    guard let collection = collections[key.collection] else { return true }
    return try snapshot.contains(collection.prefix + row.dropFirst(4), in: collection.objects)
  }

  /// Compares each entry of a group with the place of its row.
  private mutating func compareEntries(_ didExamine: () -> Void, _ report: Report) throws {
    guard let rows = view.rows else { return }
    var cursor = FamilyCursor(StorageRange(), in: rows, of: snapshot, isReverse: false)
    while let (key, row) = try cursor.next() {
      didExamine()
      entryCount += 1
      if try inspector.groupSize(of: key, row, in: view) == nil, view.groupForm.isKnown || view.kind == .manualView {
        try report(difference(.isDamaged, nil, "the group of the entry \(EntryText.text(of: key)) can't be read"))
      }
      switch try value(of: row, in: view.places).map(ViewFormat.place) {
      case .placed(key, _)?: break
      // A damaged place was reported with the row.
      case .damaged?: break
      case .placed?, .unplaced?, nil:
        try report(difference(.entryIsExtra, row, "a group has it at a place that is not its own"))
      }
    }
  }

  /// Compares the list of rows that can't be placed with their places.
  private func compareUnplaced(_ report: Report) throws {
    guard let unplaced = view.unplaced else { return }
    var cursor = FamilyCursor(StorageRange(), in: unplaced, of: snapshot, isReverse: false, keysOnly: true)
    while let row = try cursor.nextKey() {
      if try value(of: row, in: view.places) == [] { continue }
      try report(difference(.entryIsExtra, row, "it is listed as one that can't be placed, and has a place or none"))
    }
  }
}
