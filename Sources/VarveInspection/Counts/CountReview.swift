internal import Varve

/// The differences between the entries of counted parts and their counts, as found by `DatabaseInspector.verifyCounts`.
public struct CountReview: Sendable {
  /// A difference.
  public struct Difference: Hashable, Sendable, CustomStringConvertible {
    /// The kind of a difference.
    public enum Kind: String, Hashable, Sendable {
      /// A run has another number of entries than was counted, so offsets are wrong.
      case count
      /// The count of a run can't be read.
      case damaged
      /// The part has entries, and no counts.
      case missing
      /// The counts have a key that is not that of a run.
      case stray
    }

    /// The kind of the difference.
    public let kind: Kind
    /// The name of the extension.
    public let extensionName: String
    /// The name of the part.
    public let part: String
    /// The first keys and the end of the run as text, or `nil` if no run is concerned.
    public let range: String?
    /// The number that is counted, or `nil` if there is none that can be read.
    public let counted: Int?
    /// The number of entries, or `nil` if no run is concerned.
    public let found: Int?
    private let text: String

    init(_ fault: RunFault, _ extensionName: String, _ part: String) {
      self.extensionName = extensionName
      self.part = part
      text = fault.text
      switch fault {
      case .count(let range, let counted, let found):
        (kind, self.range, self.counted, self.found) = (.count, EntryText.text(of: range), counted, found)
      case .damagedCount(let range, let found), .isLarge(let range, let found):
        (kind, self.range, counted, self.found) = (.damaged, EntryText.text(of: range), nil, found)
      case .noRuns(let found): (kind, range, counted, self.found) = (.missing, nil, nil, found)
      case .strayKey: (kind, range, counted, found) = (.stray, nil, nil, nil)
      }
    }

    /// A description such as `extension "byAuthor", part "rows": the run from the start up to ("Woolf") counts 96
    /// entries, and has 95`.
    public var description: String { "extension \"\(extensionName)\", part \"\(part)\": \(text)" }
  }

  /// The number of counted parts that were compared.
  public internal(set) var partCount = 0
  /// The number of runs.
  public internal(set) var runCount = 0
  /// The number of entries.
  public internal(set) var entryCount = 0
  /// The number of differences.
  public internal(set) var differenceCount = 0
  /// The first differences, up to the requested limit.
  public internal(set) var differences: [Difference] = []
}

extension CountReview: DifferenceReview {}

extension DatabaseInspector {
  /// Compares the entries of all counted parts with their counts, without the code of the program.
  ///
  /// Parts that are built again, or that a program keeps in memory, are left out. At most `limit` differences are
  /// listed; all are counted. The error of each record that can't be read is passed to `fault`. `progress` receives the
  /// number of entries that were examined. `Database.giveUpDamagedBlocks` and `varve repair` make wrong counts again.
  ///
  /// Throws `.corruption` if a block can't be read, `.storage`. Complexity: O(n) of the entries of counted parts.
  public func verifyCounts(
    limit: Int = 100, progress: (_ done: Int) -> Void = { _ in }, fault: (any Error) throws -> Void
  ) throws -> CountReview {
    var review = CountReview()
    var examined = ExaminedCount()
    try forEachRecord(fault: fault) { name, whole in
      for record in [whole] + (whole.shadow.map { [$0] } ?? []) {
        for stored in record.storedCounts {
          var counts = RunReview(entries: families[stored.entries], runs: families[stored.runs], in: snapshot)
          try counts.run {
            examined.add(progress)
          } _: { fault in
            review.note(CountReview.Difference(fault, name, stored.part.name), limit: limit)
          }
          review.partCount += 1
          review.runCount += counts.runCount
          review.entryCount += counts.entryCount
        }
      }
    }
    return review
  }
}
