/// How a query finds its rows.
struct QueryPlan<Format: StoreFormat> {
  /// What bounds one branch of the condition.
  struct Access {
    enum Source: Equatable {
      /// The index with this number among those of the collection.
      case index(Int)
      /// The rows themselves, by their keys.
      case rows
    }

    let source: Source
    /// In order, apart from each other: values of the index, or keys of rows.
    var ranges: [KeySet.Range]
    /// How many fields the ranges bound.
    let boundCount: Int
    /// How many of these have one value in each range.
    let pointCount: Int
    /// Whether the ranges say all of the branch.
    let isExact: Bool
    /// Whether the entries are in the order of the query, and from which end.
    let order: Order?

    enum Order: Equatable { case forward, reverse }
  }

  let accesses: [Access]
  /// Whether the rows have to be sorted in memory.
  let sorts: Bool
  /// Whether the same row may be found several times.
  var repeatsRows: Bool { accesses.count > 1 }
  /// Whether each row that is found has to be asked whether it fulfils the condition.
  var filters: Bool { accesses.contains { !$0.isExact } }
}
