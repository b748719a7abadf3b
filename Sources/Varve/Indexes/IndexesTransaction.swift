/// The indexes of a collection in one transaction.
///
/// Most transactions look for one value, so what a change needs is made with the first change (`IndexWriter`).
final class IndexesTransaction<Instance: Codable & Sendable>: ExtensionTransaction {
  typealias Definition = CollectionIndexes<Instance>

  let definition: Definition
  let context: ExtensionContext<Definition>
  private var madeWriter: IndexWriter<Instance>?
  /// What is known of the collisions of each index.
  var knownCollisions: [Int: IndexCollisions?] = [:]

  init(_ definition: Definition, _ context: ExtensionContext<Definition>) {
    self.definition = definition
    self.context = context
  }

  /// A part, by its slot in the configuration: first those of the indexes.
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
