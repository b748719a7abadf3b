internal import Varve

/// Lets the program make a view again, when its entries and the places of rows differ. Used by
/// `varve views --rebuild`.
public enum ViewRebuild {
  /// Marks a view so that the program makes it again when it opens the database.
  ///
  /// An auto view is built from the rows. A manual view is data of the program: what its entries and the places of rows
  /// have in common stays, a row that has only one of both is where that says, and rows that do not exist are removed.
  ///
  /// The database must not be open elsewhere: `.locked`. Throws `.notFound` if the database has no such view, and as
  /// `DatabaseInspector.open` does.
  public static func mark(_ name: String, at path: String) throws {
    let inspector = try DatabaseInspector.open(at: path)
    do { _ = try inspector.view(name) } catch {
      try? inspector.close()
      throw error
    }
    try inspector.close()
    try Database.rebuildExtension(named: name, at: path)
  }
}
