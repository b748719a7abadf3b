internal import FutexLocks

/// The indexes of a collection: an extension with a part for each index.
///
/// # Format
/// The part named `i.` and the name of an index has its entries:
/// ```
///  key    n bytes    the value, encoded (`KeyTag`)
///         m bytes    the row's key
///         m as 1 byte below 240; or as 2 bytes, big-endian, and the byte 240
///  value             empty, or for a direct index the row as stored in `objects`
/// ```
/// Entries of unique indexes have the same format: before a value is entered, it is checked that no other row has it.
/// So rows that had the same value before the index was created are all kept, and nil needs no special format.
///
/// The part `emitted` has for each row its values in all indexes, so that entries can be removed even if the row can no
/// longer be decoded, or is decoded differently by now:
/// ```
///  key    the row's key
///  value  byte       0, or 1 if the row is in no index
///         for each index in which the row has values
///           4 bytes  number of the index, big-endian: `ErasedIndex.number`
///           varint   number of values
///             varint size of the value, and the value
/// ```
/// The part `unindexed` has the error text of each row that cannot be decoded or has a value that cannot be a key, by
/// the row's key. The part `collisions` has the encoded `IndexCollisions` of each unique index, by its number,
/// big-endian, and a hash of its definition (FNV-1a of 64 bits). The part `review` is empty: changing its version
/// causes all rows to be reviewed.
///
/// The format is stored on disk and must never change.
///
/// This is a class because each transaction that uses the indexes references it.
final class IndexExtension<Instance: Codable & Sendable>: ReservedExtension {
  static var kind: String { IndexFormat.kind }
  static var reviewPartName: String { "review" }

  let collection: String
  /// The indexes in the order of their names.
  let indexes: [CheckedIndex<Instance>]
  /// The plans of the indexes, as the write path uses them.
  let plans: [ErasedIndex]
  /// Whether one of the indexes is unique.
  let hasUnique: Bool
  /// The version of everything that the values of rows depend on besides the definitions of the indexes.
  private let reviewVersion: String
  /// Makes the stand-in whose values are entered for a row that can't be decoded, or is nil if there are none.
  let standIn: (@Sendable (UndecodableRow) -> Instance?)?
  /// For each index, one more than the version of the commit that has made it ready, if that commit left no collisions;
  /// or 0 if that is not known.
  private let clean: FutexLock<[UInt64]>

  func isClean(_ index: Int, since version: CommitVersion) -> Bool {
    clean.withLock { $0[index] == version.number + 1 }
  }

  func setClean(_ index: Int, since version: CommitVersion) { clean.withLock { $0[index] = version.number + 1 } }

  /// Creates the indexes. `surviving` has the version of the part `review` in the catalog, and the versions of the
  /// format whose values equal those of the current one.
  init(
    collection: String, _ indexes: [CheckedIndex<Instance>], formatVersion: String?,
    surviving: (version: String?, others: [String]) = (nil, []),
    standIn: (@Sendable (UndecodableRow) -> Instance?)? = nil
  ) {
    self.collection = collection
    self.indexes = indexes
    self.standIn = standIn
    plans = indexes.map(\.plan)
    clean = FutexLock([UInt64](repeating: 0, count: indexes.count))
    hasUnique = indexes.contains { $0.declaration.kind.isUnique }
    let versions = indexes.filter { $0.declaration.version != 0 }.map { "\($0.name) \($0.declaration.version)" }
    // Rows that were in no index get the values of their stand-ins, and lose them, when the format's policy changes.
    let policy = standIn == nil ? "" : "|stand-ins"
    func tag(_ version: String) -> String { "\(version)|\(versions.joined(separator: "|"))\(policy)" }
    // The version in the catalog is kept if its values are still correct, so that no row is reviewed.
    let kept = surviving.others.lazy.map(tag).first { $0 == surviving.version }
    reviewVersion = kept ?? tag(formatVersion ?? "")
  }

  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "1")
    configuration.scope = .only([collection])
    if indexes.contains(where: { $0.declaration.readsMetadata || $0.declaration.isDirect }) {
      configuration.events.insert(.metadata)
    }
    configuration.needs = .before
    configuration.delivery = .immediate
    // The counts of a part are written by the writer alone.
    configuration.isConcurrent = !plans.contains(where: \.isCounted)
    configuration.catchesUp = true
    configuration.reviewsWholeParts = true
    // Programs that follow a database may know more or fewer indexes than the one that writes it.
    configuration.commonParts = [IndexFormat.emittedPart, "unindexed", IndexFormat.collisionsPart, Self.reviewPartName]
    configuration.parts = indexes.map { index in
      var part = PartDefinition(index.partName)
      part.version = index.definition
      part.isCounted = index.plan.isCounted
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

  /// The slots of the parts that all indexes share.
  var emittedPart: Int { indexes.count }
  var unindexedPart: Int { indexes.count + 1 }
  var collisionsPart: Int { indexes.count + 2 }
  var reviewPart: Int { indexes.count + 3 }

  func makeTransaction(
    _ context: ExtensionContext<IndexExtension>
  ) -> IndexesTransaction<Instance> {
    IndexesTransaction(self, context)
  }
}
