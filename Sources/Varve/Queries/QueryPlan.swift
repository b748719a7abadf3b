/// The way in which a query finds its rows.
struct QueryPlan<Format: StoreFormat> {
  /// A read for one branch of the condition, or for a part of it.
  struct Access {
    enum Source: Equatable {
      /// The index with this position among those of the collection.
      case index(Int)
      /// The rows of the collection, by their keys.
      case rows
    }

    enum Order: Equatable { case forward, reverse }

    /// A field by which entries are ordered.
    struct OrderField: Hashable {
      let path: FieldPath
      /// Whether the index orders the values descending.
      let isDescending: Bool
    }

    let source: Source
    /// The ranges in order, without overlaps: values of the index, or keys of rows.
    var ranges: [KeySet.Range]
    /// The number of fields that the ranges bound.
    var boundCount = 0
    /// Whether the index has only rows that fulfil its own condition, which the branch contains.
    var isPartial = false
    /// The number of these fields that have a single value in each range.
    var pointCount = 0
    /// The terms of the branch that the ranges cover, by number: the branch's sets come first, and then its other
    /// terms.
    var terms: Set<Int> = []
    /// The direction in which the entries are in the order of the query, or nil if they are not.
    var order: Order?
    /// Whether entries with the same value are in the order of the query only in the opposite direction.
    var turnsTies = false
    /// The bytes that all entries begin with: the values of the fields that are bound to a single value.
    var fixed: [UInt8] = []
    /// The fields after the fixed ones. After these fields, entries are in the order of the rows' keys.
    var orderFields: [OrderField] = []
    /// Whether the entries are in the order of the rows' keys.
    var isByKey = false
    /// Whether a row may have several entries.
    var repeatsRows = false

    /// Whether the branch leaves out some of the rows: by its ranges, or by the condition of the index.
    var isBounded: Bool { boundCount > 0 || isPartial }
  }

  /// The reads for one branch of the condition.
  struct Branch {
    /// The accesses, whose rows are intersected. If there are several, each is in the order of the rows' keys.
    let accesses: [Access]
    /// Whether each row that is found fulfills the branch. Otherwise the condition has to be tested on it.
    let isExact: Bool

    var first: Access { accesses[0] }
  }

  let branches: [Branch]
  /// Whether the rows have to be sorted in memory.
  let sorts: Bool
  /// Whether the branches are merged in one order.
  let isMerged: Bool

  /// Whether the condition has to be tested on each row that is found.
  var filters: Bool { branches.contains { !$0.isExact } }
  /// Whether a row may be found several times, so that the rows that were returned have to be remembered.
  var repeatsRows: Bool { branches.contains { $0.first.repeatsRows } }
  /// Whether entries are read in reverse.
  var isReverse: Bool { !sorts && branches.contains { $0.first.order == .reverse } }
}
