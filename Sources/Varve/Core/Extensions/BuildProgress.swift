/// The progress of the build of an extension, or of a migration.
public struct BuildProgress: Hashable, Sendable {
  /// The number of rows that were passed to the extension, or that the migration has examined.
  public var rowsDone: Int
  /// The number of rows when the build began.
  public var rowsTotal: Int
  /// The number of rows among those done that a migration could not decode, and has left as they are. It is 0 for a
  /// build.
  public var rowsSkipped: Int

  /// Creates a progress.
  public init(rowsDone: Int, rowsTotal: Int, rowsSkipped: Int = 0) {
    self.rowsDone = rowsDone
    self.rowsTotal = rowsTotal
    self.rowsSkipped = rowsSkipped
  }

  /// The completed fraction, from 0 to 1.
  public var fraction: Double { rowsTotal == 0 ? 1 : min(1, Double(rowsDone) / Double(rowsTotal)) }
}
