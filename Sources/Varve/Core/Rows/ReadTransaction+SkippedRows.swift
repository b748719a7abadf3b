extension ReadTransaction {
  /// The rows that answers of this transaction have left out so far, because this build of the program can't decode
  /// them and their formats say `.skips`, or `.fallback` without a stand-in: `StoreFormat.undecodable`.
  public final var skippedRows: SkippedRows { skippedRowListIfMade?.rows ?? SkippedRows() }

  /// The list in which answers note the rows that they leave out.
  final var skippedRowList: SkippedRowList {
    if let list = skippedRowListIfMade { return list }
    let list = SkippedRowList()
    skippedRowListIfMade = list
    return list
  }

  /// Returns the result of `body`, and the rows that its answers have left out.
  final func collectingSkippedRows<Result>(_ body: () throws -> Result) rethrows -> (Result, SkippedRows) {
    let (outer, own) = (skippedRowListIfMade, SkippedRowList())
    skippedRowListIfMade = own
    defer { skippedRowListIfMade = outer }
    return (try body(), own.rows)
  }
}
