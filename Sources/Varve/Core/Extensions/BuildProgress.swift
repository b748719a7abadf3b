/// The progress of the build of an extension.
public struct BuildProgress: Hashable, Sendable {
  /// The number of rows that were passed to the extension.
  public var rowsDone: Int
  /// The number of rows when the build began.
  public var rowsTotal: Int

  /// Creates a progress.
  public init(rowsDone: Int, rowsTotal: Int) {
    self.rowsDone = rowsDone
    self.rowsTotal = rowsTotal
  }

  /// The completed fraction, from 0 to 1.
  public var fraction: Double { rowsTotal == 0 ? 1 : min(1, Double(rowsDone) / Double(rowsTotal)) }
}
