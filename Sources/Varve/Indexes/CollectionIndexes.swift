/// The indexes of a collection: one extension, with a part for each index.
///
/// # Format
/// The part `i.` and the name of an index has its entries:
/// ```
///  key    n bytes    the value, encoded (`KeyTag`)
///         m bytes    the row's key
///         m as 1 byte below 240; or as 2 bytes, big-endian, and the byte 240
///  value             empty; of a direct index the row as it stands in `objects`
/// ```
/// Entries of unique indexes are the same: that a value has one row is checked before it is entered. So a value that two
/// rows had before the index was there loses neither, and nil needs no form of its own.
///
/// The part `emitted` has for each row what it has in all indexes, so that entries can be removed whose row can't be decoded
/// any more, or is read in another way by now:
/// ```
///  key    the row's key
///  value  byte       0; 1 where the row is in no index
///         for each index in which the row has values
///           4 bytes  number of the index, big-endian: `NamedIndex.number`
///           varint   how many values
///             varint size of the value, and the value
/// ```
/// The part `unindexed` has, by the keys of rows that can't be decoded or have a value that can't be a key, the error as
/// text. The part `collisions` has,
/// by the number of a unique index, big-endian, and a hash of its definition (FNV-1a of 64 bits), what `IndexCollisions`
/// says. The part `review` is empty: another version of it lets all rows be looked at again.
///
/// On disk: never change.
struct CollectionIndexes<Instance: Codable & Sendable>: ReservedExtension {
  static var kind: String { "varve.indexes" }

  let collection: String
  /// In the order of their names.
  let indexes: [NamedIndex<Instance>]
  /// What the values of rows depend on beside the definitions of the indexes.
  let reviewVersion: String
  let unindexableRows: UnindexableRows

  init(
    collection: String, _ indexes: [NamedIndex<Instance>], formatVersion: String?, unindexableRows: UnindexableRows
  ) {
    self.collection = collection
    self.indexes = indexes
    self.unindexableRows = unindexableRows
    let versions = indexes.filter { $0.declaration.version != 0 }.map { "\($0.name) \($0.declaration.version)" }
    reviewVersion = "\(formatVersion ?? "")|\(versions.joined(separator: "|"))"
  }

  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "1")
    configuration.scope = .only([collection])
    if indexes.contains(where: { $0.declaration.readsMetadata || $0.declaration.isDirect }) {
      configuration.hears.insert(.metadata)
    }
    configuration.needs = [.oldRows, .before]
    configuration.delivery = .immediate
    configuration.isConcurrent = true
    configuration.catchesUp = true
    configuration.reviewsWholeParts = true
    configuration.parts = indexes.map { index in
      var part = PartDefinition(index.partName)
      part.version = index.definition
      return part
    }
    var review = PartDefinition("review")
    review.version = reviewVersion
    configuration.parts += [
      PartDefinition("emitted", .appendOnly), PartDefinition("unindexed"), PartDefinition("collisions"), review,
    ]
    return configuration
  }

  func makeTransaction(_ context: ExtensionContext<Self>) throws -> IndexesTransaction<Instance> {
    try IndexesTransaction(self, context)
  }
}

/// What the extension of a collection's indexes is registered as.
enum IndexesName {
  private static let prefix = ReservedName.prefix + "indexes."

  /// The name for a collection: signs that names of extensions can't have are written as `%` and their number. On disk:
  /// never change.
  static func name(for collection: String) -> String {
    var name = prefix
    for character in collection {
      switch character {
      case "%": name += "%25"
      case "=": name += "%3D"
      case "\u{1F}": name += "%1F"
      default: name.append(character)
      }
    }
    return Name.composed(name)
  }
}
