internal import Varve

/// A view, as the catalog and the storage describe it: an `AutoView` or a `ManualView` of the module VarveViews.
///
/// It belongs to the inspector that created it, and may be used as long as the inspector is open. Safe from any thread.
public struct InspectedView: Sendable {
  /// The kinds of views.
  public enum Kind: String, Hashable, Sendable {
    /// A closure of the program places the rows.
    case autoView
    /// The program itself puts the rows into an order.
    case manualView
  }

  /// The state of a view.
  public enum State: Hashable, Sendable, CustomStringConvertible {
    /// The view has all rows.
    case ready
    /// The program is building the view.
    case building
    /// The view has missed changes. It catches up the next time a program that defines it opens the database.
    case stale
    /// The build of the view failed with this error.
    case failed(String)

    /// The name of the case.
    public var description: String {
      switch self {
      case .ready: "ready"
      case .building: "building"
      case .stale: "stale"
      case .failed: "failed"
      }
    }
  }

  /// The name that the view is registered by.
  public let name: String
  /// The kind.
  public let kind: Kind
  /// The version of its definition.
  public let version: String
  /// The name of the type of its groups: see `KeyType`. It is empty if the catalog does not have it.
  public let keyType: String
  /// The state.
  public let state: State
  /// Whether another definition is being built, which will replace this one.
  public let isBeingReplaced: Bool
  /// Whether the program keeps the view in memory, so that the storage has nothing of it.
  public let isVolatile: Bool
  /// The approximate size of all that it keeps in bytes: compressed in tables, uncompressed in memtables.
  public let approximateSize: UInt64

  let groupForm: KeyForm
  let rows: StorageFamily?
  let places: StorageFamily?
  let unplaced: StorageFamily?
  let counts: StoredCounts?
  let runs: StorageFamily?

  /// Whether it has all rows in the storage, so that they can be compared.
  public var isComplete: Bool { state == .ready && !isVolatile }

  /// Returns the group for a text as `KeyText` writes it. The quotation marks are optional for groups that are strings.
  /// If the type of the groups is not known, a text that looks like no other key is a string.
  ///
  /// Throws `.invalidKey` if the text is not a group of this view.
  public func group(_ text: String) throws -> [UInt8] {
    do { return try KeyTextReader.key(text, groupForm) } catch {
      if groupForm.isKnown { throw error }
      return try KeyTextReader.key(text, .string)
    }
  }
}

extension DatabaseInspector {
  /// Returns the views of the database in the order of their names.
  ///
  /// The error of each record that can't be read is passed to `fault`. Throws `.storage`. Complexity: O(extensions),
  /// and a search in the tables' indexes for each view.
  public func views(fault: (any Error) throws -> Void) throws -> [InspectedView] {
    var found: [InspectedView] = []
    try forEachRecord(fault: fault) { name, record in
      do {
        if let view = try view(name, record) { found.append(view) }
      } catch {
        try fault(error)
      }
    }
    return found.sorted { $0.name < $1.name }
  }

  /// Returns the view with a name.
  ///
  /// Throws `.notFound` if the database has no such view, `.corruption` if its record can't be read.
  public func view(_ name: String) throws -> InspectedView {
    if let value = try snapshot.value(of: CatalogKey.databaseExtension(name), in: catalog),
      let view = try view(name, try ExtensionRecord(value, name: name))
    {
      return view
    }
    let known = try views { _ in }.map { "\"\($0.name)\"" }.joined(separator: ", ")
    throw DatabaseError(
      .notFound, "no view is named \"\(name)\"; \(known.isEmpty ? "there are none" : "there are \(known)")")
  }

  private func view(_ name: String, _ record: ExtensionRecord) throws -> InspectedView? {
    // A manual view has the type of its groups in its kind, and an auto view as the version of its parts.
    let words = record.kind.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
    let part = record.parts.first { $0.name == ViewFormat.rows }
    let kind: InspectedView.Kind
    let keyType: String
    switch words.first {
    case ViewFormat.autoKind: (kind, keyType) = (.autoView, part?.version ?? "")
    case ViewFormat.manualKind: (kind, keyType) = (.manualView, words.count > 1 ? words[1] : "")
    default: return nil
    }
    func family(_ name: String) -> StorageFamily? {
      record.parts.first { $0.name == name }.flatMap { families[record.familyName($0)] }
    }
    let counts = record.storedCounts.first { $0.part.name == ViewFormat.rows }
    let kept = record.parts.compactMap { families[record.familyName($0)] }
    return InspectedView(
      name: name, kind: kind, version: record.tags.first ?? "", keyType: keyType, state: Self.state(of: record),
      isBeingReplaced: record.shadow != nil, isVolatile: part?.isVolatile ?? false,
      approximateSize: try kept.reduce(0) { $0 + (try size(of: StorageRange(), in: $1)) }, groupForm: KeyForm(keyType),
      rows: family(ViewFormat.rows), places: family(ViewFormat.places), unplaced: family(ViewFormat.unplaced),
      counts: counts, runs: counts.flatMap { families[$0.runs] })
  }

  private static func state(of record: ExtensionRecord) -> InspectedView.State {
    switch record.state {
    case .stale: .stale
    case .failed(let message): .failed(message)
    case .ingesting: .building
    case .building, .ready: record.parts.allSatisfy { $0.watermark == nil } ? .ready : .building
    }
  }
}
