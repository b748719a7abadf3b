/// A checked index of a format or of rows. It is a class, because a copy of all its properties would retain many
/// references.
final class CheckedIndex<Instance>: Sendable {
  let name: String
  let declaration: IndexDeclaration<Instance>
  /// The text that must be the same for the entries on disk to be usable.
  let definition: String
  /// Whether values of the index may have parts that are nil.
  let mayHaveNil: Bool

  let plan: ErasedIndex
  let foldedParts: FoldedParts
  /// The key of the index in the part `collisions`.
  let collisionsKey: [UInt8]

  init(_ name: String, _ declaration: IndexDeclaration<Instance>, definition: String) {
    self.name = name
    self.declaration = declaration
    self.definition = definition
    mayHaveNil = definition.contains("optional(")
    plan = ErasedIndex(name, declaration)
    foldedParts = FoldedParts(declaration.fields.map(\.path))
    collisionsKey = IndexFormat.collisionsKey(of: name, definition: definition)
  }

  /// The name of the part with the entries of the index.
  var partName: String { IndexFormat.partName(of: name) }
}

extension CheckedIndex {
  /// The maximum number of indexes: each has a part, or two if it is counted, and a few parts are shared by all.
  private static var countMaximum: Int { ExtensionTraits.partsMaximum - 4 }

  /// Returns the indexes of a collection in the order of their names. Throws `.invalidDefinition` if two have the same
  /// name or number, or if there are too many.
  static func checked(_ list: [CheckedIndex], of owner: String, collection: String) throws -> [CheckedIndex] {
    func refused(_ what: String) -> DatabaseError {
      DatabaseError(.invalidDefinition, what, collection: collection)
    }
    let sorted = list.sorted { $0.name < $1.name }
    for (index, next) in zip(sorted, sorted.dropFirst()) where index.name == next.name {
      throw refused("index \"\(index.name)\" of \(owner) has the name of another")
    }
    var numbers: [UInt32: String] = [:]
    for index in sorted {
      if let other = numbers.updateValue(index.name, forKey: index.plan.number) {
        throw refused(
          "indexes \"\(index.name)\" and \"\(other)\" of \(owner) have names with one hash; give one another name")
      }
    }
    if let index = sorted.first(where: { $0.name.hasSuffix(IndexFormat.countsSuffix) }) {
      throw refused("index \"\(index.name)\" of \(owner) has a name that ends with \"\(IndexFormat.countsSuffix)\"")
    }
    let countedCount = list.count { $0.plan.isCounted }
    guard list.count + countedCount <= countMaximum else {
      let counted = countedCount > 0 ? ", of which \(countedCount) are counted and so count as two" : ""
      throw refused("\(owner) has \(list.count) indexes\(counted); at most \(countMaximum) are possible")
    }
    return sorted
  }
}
