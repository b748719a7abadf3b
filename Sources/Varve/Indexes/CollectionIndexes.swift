internal import FutexLocks

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
///           4 bytes  number of the index, big-endian: `IndexPlan.number`
///           varint   how many values
///             varint size of the value, and the value
/// ```
/// The part `unindexed` has, by the keys of rows that can't be decoded or have a value that can't be a key, the error as
/// text. The part `collisions` has,
/// by the number of a unique index, big-endian, and a hash of its definition (FNV-1a of 64 bits), what `IndexCollisions`
/// says. The part `review` is empty: another version of it lets all rows be looked at again.
///
/// On disk: never change.
///
/// A class: each transaction that uses the indexes has it.
final class CollectionIndexes<Instance: Codable & Sendable>: ReservedExtension {
  static var kind: String { IndexFormat.kind }
  static var reviewPartName: String { "review" }

  let collection: String
  /// In the order of their names.
  let indexes: [NamedIndex<Instance>]
  /// The same as the write path uses them.
  let plans: [IndexPlan]
  /// Whether one of them is unique.
  let hasUnique: Bool
  /// What the values of rows depend on beside the definitions of the indexes.
  private let reviewVersion: String
  let unindexableRows: UnindexableRows
  /// For each index one more than the commit that has made it ready, where that has left no collisions; 0: not known.
  private let clean: FutexLock<[UInt64]>

  func isClean(_ index: Int, since version: CommitVersion) -> Bool {
    clean.withLock { $0[index] == version.number + 1 }
  }

  func setClean(_ index: Int, since version: CommitVersion) { clean.withLock { $0[index] = version.number + 1 } }

  /// `surviving` is the version of the part `review` in the catalog, and the versions of the format whose values are those of
  /// the present one.
  init(
    collection: String, _ indexes: [NamedIndex<Instance>], formatVersion: String?,
    surviving: (version: String?, others: [String]) = (nil, []), unindexableRows: UnindexableRows
  ) {
    self.collection = collection
    self.indexes = indexes
    self.unindexableRows = unindexableRows
    plans = indexes.map(\.plan)
    clean = FutexLock([UInt64](repeating: 0, count: indexes.count))
    hasUnique = indexes.contains { $0.declaration.kind.isUnique }
    let versions = indexes.filter { $0.declaration.version != 0 }.map { "\($0.name) \($0.declaration.version)" }
    func tag(_ version: String) -> String { "\(version)|\(versions.joined(separator: "|"))" }
    // What the catalog has stays where its values are still right: no row is reviewed.
    let kept = surviving.others.lazy.map(tag).first { $0 == surviving.version }
    reviewVersion = kept ?? tag(formatVersion ?? "")
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
    // Programs that follow a database may know more indexes than the one that writes it, or fewer.
    configuration.commonParts = [IndexFormat.emittedPart, "unindexed", IndexFormat.collisionsPart, Self.reviewPartName]
    configuration.parts = indexes.map { index in
      var part = PartDefinition(index.partName)
      part.version = index.definition
      return part
    }
    var review = PartDefinition(Self.reviewPartName)
    review.version = reviewVersion
    configuration.parts += [
      PartDefinition(IndexFormat.emittedPart, .appendOnly), PartDefinition("unindexed"),
      PartDefinition(IndexFormat.collisionsPart), review,
    ]
    return configuration
  }

  /// The slots of the parts that are for all indexes.
  var emittedPart: Int { indexes.count }
  var unindexedPart: Int { indexes.count + 1 }
  var collisionsPart: Int { indexes.count + 2 }
  var reviewPart: Int { indexes.count + 3 }

  func makeTransaction(
    _ context: ExtensionContext<CollectionIndexes>
  ) -> IndexesTransaction<Instance> {
    IndexesTransaction(self, context)
  }
}
