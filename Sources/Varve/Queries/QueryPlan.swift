/// How a query finds its rows.
struct QueryPlan<Format: StoreFormat> {
  /// What is read for one branch of the condition, or a part of it.
  struct Access {
    enum Source: Equatable {
      /// The index with this number among those of the collection.
      case index(Int)
      /// The rows themselves, by their keys.
      case rows
    }

    enum Order: Equatable { case forward, reverse }

    /// A field that entries are in the order of.
    struct OrderField: Hashable {
      let path: FieldPath
      /// Whether the index has its values the other way.
      let isDescending: Bool
    }

    let source: Source
    /// In order, apart from each other: values of the index, or keys of rows.
    var ranges: [KeySet.Range]
    /// How many fields the ranges bound.
    var boundCount = 0
    /// How many of these have one value in each range.
    var pointCount = 0
    /// The terms of the branch that the ranges say: its sets, and after them the others.
    var terms: Set<Int> = []
    /// Whether the entries are in the order of the query, and from which end.
    var order: Order?
    /// What all entries begin with: the values of the fields that are bounded to one.
    var fixed: [UInt8] = []
    /// The fields after these; then entries are in the order of the rows' keys.
    var orderFields: [OrderField] = []
    /// Whether the entries are in the order of the rows' keys.
    var isByKey = false
  }

  /// What is read for one branch of the condition.
  struct Branch {
    /// Several, each in the order of the rows' keys: the rows that all of them have.
    let accesses: [Access]
    /// Whether each row that is found fulfils the branch; otherwise it has to be asked.
    let isExact: Bool

    var first: Access { accesses[0] }
  }

  let branches: [Branch]
  /// Whether the rows have to be sorted in memory.
  let sorts: Bool
  /// Whether the branches are read side by side, in one order.
  let isMerged: Bool

  /// Whether the same row may be found several times.
  var repeatsRows: Bool { branches.count > 1 && !isMerged }
  /// Whether each row that is found has to be asked whether it fulfils the condition.
  var filters: Bool { branches.contains { !$0.isExact } }
  /// Whether entries are read from their ends.
  var isReverse: Bool { !sorts && branches.contains { $0.first.order == .reverse } }
}
