import Varve
import VarveViews

@testable import ObjectFixtures

/// A row of the model tests of views.
struct ModelRow: Codable, Hashable, Sendable {
  var group: Int
  var number: Double
  var text: String

  /// Whether the row writes another one, by `ModelEcho`.
  var echoes: Bool { text.hasPrefix("e") }
}

/// The definitions that the model tests put in force, each by a closure and by what the model says.
enum ModelDefinition: Int, CaseIterable {
  case byNumber, byText, filtered, byMetadata

  private static func row(_ row: Row) throws -> ModelRow { try row.object(as: ModelRow.self) }

  var view: AutoView<Int> {
    let collections: Set<String> = ["a", "b"]
    return switch self {
    case .byNumber, .filtered:
      switch self {
      case .filtered: Self.byNumber.view.filtered(version: "even") { Int(try Self.row($0).group) % 2 == 0 }
      default:
        AutoView(version: "number", of: collections) { row in
          let row = try Self.row(row)
          return row.group == 0 ? nil : ViewPlace(row.group, row.number)
        }
      }
    case .byText:
      AutoView(version: "text", of: collections) { row in
        let row = try Self.row(row)
        return ViewPlace(row.group % 3, Descending(row.text), row.number.isNaN ? 0 : 1)
      }
    case .byMetadata:
      AutoView(version: "metadata", of: collections, reads: [.object, .metadata]) { row in
        guard let shelf = try row.metadata(as: Int.self) else { return nil }
        return ViewPlace(shelf, try Self.row(row).text)
      }
    }
  }

  /// Returns the group and the position of a row by the model: `nil` for none, and an empty position for one that can't
  /// be placed.
  func place(_ row: ModelRow, metadata: Int?) -> (group: Int, isPlaced: Bool)? {
    switch self {
    case .byNumber: row.group == 0 ? nil : (row.group, !row.number.isNaN)
    case .filtered: row.group == 0 || row.group % 2 != 0 ? nil : (row.group, !row.number.isNaN)
    case .byText: (row.group % 3, true)
    case .byMetadata: metadata.map { ($0, true) }
    }
  }

  /// Returns whether one row comes before another of its group, and not by its number in the order of insertion.
  func precedes(_ left: ModelRow, _ right: ModelRow) -> Bool {
    switch self {
    case .byNumber, .filtered: left.number < right.number
    case .byText:
      left.text != right.text ? left.text > right.text : left.number.isNaN && !right.number.isNaN
    case .byMetadata: left.text < right.text
    }
  }
}

/// A row's place in the model of the rows.
struct ModelKey: Hashable, Comparable {
  var collection: String
  var key: Int
  static func < (left: ModelKey, right: ModelKey) -> Bool {
    (left.collection, left.key) < (right.collection, right.key)
  }
  var rowKey: RowKey { get throws { try RowKey(key, in: collection) } }
}

/// The rows and both views as arrays.
struct ViewModel {
  struct Stored {
    var row: ModelRow
    var metadata: Int?
    /// The rank in the order of insertion.
    var rank: Int
  }

  var rows: [ModelKey: Stored] = [:]
  var definition = ModelDefinition.byNumber
  /// The groups of the manual view.
  var lists: [Int: [ModelKey]] = [:]
  private var lastRank = 0

  // MARK: - The automatic view

  /// The groups of the automatic view, and the rows that can't be placed.
  func groups() -> (groups: [Int: [ModelKey]], unplaced: [ModelKey]) {
    var groups: [Int: [ModelKey]] = [:]
    var unplaced: [ModelKey] = []
    for (key, stored) in rows {
      guard let place = definition.place(stored.row, metadata: stored.metadata) else { continue }
      if place.isPlaced { groups[place.group, default: []].append(key) } else { unplaced.append(key) }
    }
    for group in groups.keys {
      groups[group]?.sort { left, right in
        guard let first = rows[left], let second = rows[right] else { return false }
        if definition.precedes(first.row, second.row) { return true }
        return !definition.precedes(second.row, first.row) && first.rank < second.rank
      }
    }
    return (groups, unplaced.sorted())
  }

  // MARK: - Changes

  /// Sets a row. Without `metadata` a new object has none.
  mutating func set(_ key: ModelKey, _ row: ModelRow, metadata: Int? = nil) {
    if let old = rows[key] {
      rows[key] = Stored(row: row, metadata: metadata, rank: old.rank)
    } else {
      lastRank += 1
      rows[key] = Stored(row: row, metadata: metadata, rank: lastRank)
    }
  }

  /// Removes a row. `isNoticed` is false if the manual view is not registered.
  mutating func remove(_ key: ModelKey, isNoticed: Bool) {
    rows[key] = nil
    if isNoticed { removeFromLists([key]) }
  }

  mutating func removeFromLists(_ keys: [ModelKey]) {
    for (group, list) in lists {
      let left = list.filter { !keys.contains($0) }
      lists[group] = left.isEmpty ? nil : left
    }
  }

  /// Removes the rows of the manual view that do not exist.
  mutating func sweep() { removeFromLists(lists.values.flatMap { $0 }.filter { rows[$0] == nil }) }
}

/// An extension that writes a row of `b` for some rows of `a`, in its hook.
struct ModelEcho: DatabaseExtension {
  static let kind = "model.echo"
  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "1")
    configuration.scope = .only(["a"])
    configuration.build = .none
    return configuration
  }
  func makeTransaction(_ context: ExtensionContext<Self>) throws -> ModelEchoTransaction {
    ModelEchoTransaction(context)
  }

  static func echo(of row: ModelRow) -> ModelRow { ModelRow(group: row.group + 1, number: row.number, text: "x") }
}

final class ModelEchoTransaction: ExtensionTransaction {
  typealias Definition = ModelEcho
  private let context: ExtensionContext<ModelEcho>
  init(_ context: ExtensionContext<ModelEcho>) { self.context = context }

  func didChange(_ change: borrowing RowChange) throws {
    guard let writer = context.writeTransaction else { return }
    let key = try change.key.key(as: Int.self)
    guard let row = try change.row?.object(as: ModelRow.self) else {
      try writer.remove(key: key, in: "b")
      return
    }
    if row.echoes { try writer.set(ModelEcho.echo(of: row), key: key, in: "b") }
  }
}
