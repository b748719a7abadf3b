/// How far the building of an extension is.
public struct BuildProgress: Hashable, Sendable {
  /// The rows that it was given.
  public var rowsDone: Int
  /// The rows that there were when it began.
  public var rowsTotal: Int

  /// So many of so many.
  public init(rowsDone: Int, rowsTotal: Int) {
    self.rowsDone = rowsDone
    self.rowsTotal = rowsTotal
  }

  /// From 0 to 1.
  public var fraction: Double { rowsTotal == 0 ? 1 : min(1, Double(rowsDone) / Double(rowsTotal)) }
}
