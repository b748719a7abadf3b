/// An iterator over one table that a `LevelIterator` opens when it gets there.
///
/// A type of its own rather than a closure: the level's loop is specialised for it, and nothing is
/// allocated to carry what opening needs.
protocol OpenableIterator: InternalIterator, ~Copyable {
  /// What opening needs: in the engine, where readers are found and for which purpose they read.
  associatedtype Opener

  /// An iterator that stands nowhere yet. The table lives as long as the level that names it.
  static func open(_ table: TableMetadata, _ opener: Opener) throws(EngineError) -> Self
}
