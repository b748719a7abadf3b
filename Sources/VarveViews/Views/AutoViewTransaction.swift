@_spi(Extensions) public import Varve

/// An ``AutoView`` in one transaction. ``ViewTransaction`` has its methods.
public final class AutoViewTransaction<Group: KeyCodable>: ViewTransaction {
  /// The type of the extension.
  public typealias Definition = AutoView<Group>
  /// What the view keeps.
  public let content: ViewContent<Group>
  private let placer: ViewPlacer<Group>
  private let reads: RowInputs

  init(_ definition: AutoView<Group>, _ context: ExtensionContext<AutoView<Group>>) throws {
    let placer = ViewPlacer(definition, keySize: context.limits.keySize)
    self.placer = placer
    reads = definition.reads
    content = try ViewContent(
      context, version: definition.version, scope: .only(definition.collections), mayMiss: !definition.isFilled
    ) { try placer.placement(of: $0) }
  }

  /// Places the row that was changed.
  @_spi(Extensions) public func didChange(_ change: borrowing RowChange) throws {
    let event = change.event
    guard reads.concerns(event) else { return }
    let row = ViewEntry.rowBytes(change.collectionNumber, change.key)
    let placement = try change.row.map { try placer.placement(of: $0) } ?? .none
    if event == .inserted { return try content.enter(row, at: placement) }
    try content.move(row, to: placement)
  }

  /// Removes the rows of a collection, or all.
  @_spi(Extensions) public func removesAll(in collection: String?) throws -> Bool {
    try content.removeAll(in: collection)
  }

  /// Places a row that was missed.
  @_spi(Extensions) public func didMiss(_ key: RowKey, _ row: Row?) throws {
    guard let bytes = try content.rowBytes(key) else { return }
    try content.move(bytes, to: try row.map { try placer.placement(of: $0) } ?? .none)
  }
}

/// Places rows by the closure of a definition.
struct ViewPlacer<Group: KeyCodable> {
  private let place: AutoView<Group>.Place
  private let keySize: Int

  init(_ definition: AutoView<Group>, keySize: Int) {
    place = definition.place
    self.keySize = keySize
  }

  /// Returns the place of a row. Throws what the closure throws, unless it means that the row can't be placed.
  func placement(of row: Row) throws -> ViewPlacement {
    do {
      guard var place = try place(row) else { return .none }
      if let failure = place.failure { throw failure }
      let size = place.bytes.count - 1
      guard size <= keySize - 8 else {
        throw DatabaseError(
          .keyTooLong, "the place of a row in a view has \(size) bytes, and a view takes \(keySize - 8)")
      }
      place.bytes.append(number: row.id.number)
      return .placed(ViewEntry(freeByteAndKey: &place.bytes, groupSize: place.groupSize))
    } catch let error as DatabaseError where Self.isOfRow(error) {
      return .unplaced(error.description)
    }
  }

  /// Returns whether an error means that a row can't be placed.
  private static func isOfRow(_ error: DatabaseError) -> Bool {
    switch error.code {
    case .decodingFailed, .unsupportedVersion, .invalidKey, .keyTooLong: true
    default: false
    }
  }
}
