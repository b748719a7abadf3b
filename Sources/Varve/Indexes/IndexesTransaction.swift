/// The indexes of a collection in one transaction.
///
/// Most transactions only look up a value, so the writer is created with the first change (`IndexWriter`).
final class IndexesTransaction<Instance: Codable & Sendable>: ExtensionTransaction {
  typealias Definition = IndexExtension<Instance>

  let definition: Definition
  let context: ExtensionContext<Definition>
  private var madeWriter: IndexWriter<Instance>?
  /// The collisions of each index, as far as they were read.
  var knownCollisions: [Int: IndexCollisions?] = [:]

  init(_ definition: Definition, _ context: ExtensionContext<Definition>) {
    self.definition = definition
    self.context = context
  }

  /// Returns a part by its slot in the configuration, which begins with the indexes.
  func part(_ slot: Int) -> Part { context.part(at: slot) }

  private var writer: IndexWriter<Instance> {
    if let madeWriter { return madeWriter }
    let writer = IndexWriter(self)
    madeWriter = writer
    return writer
  }

  // MARK: - Changes

  func willChange(_ change: borrowing RowChange) throws { try writer.willChange(change) }

  func didChange(_ change: borrowing RowChange) throws { try writer.didChange(change) }

  func removesAll(in collection: String?) throws -> Bool {
    try writer.removeAll()
    return true
  }

  func didMiss(_ key: RowKey, _ row: Row?) throws { try writer.didMiss(key, row) }

  func flush() throws { try madeWriter?.flush() }

  func didFinishBuild() throws {
    for (index, named) in definition.indexes.enumerated() where named.declaration.kind.isUnique {
      if try part(index).isReady { continue }
      try findCollisions(of: index)
    }
  }
}
