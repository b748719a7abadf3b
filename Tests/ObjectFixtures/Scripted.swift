import Synchronization
import Varve

/// An extension whose configuration and hooks are set by a test.
struct Scripted: DatabaseExtension {
  typealias Changes = String
  typealias Hook = @Sendable (ScriptedTransaction, borrowing RowChange) throws -> Void

  static let kind = "test.scripted"
  var configuration = ExtensionConfiguration(version: "1")
  var will: Hook = { _, _ in }
  var did: Hook = { _, _ in }
  var removesAll: @Sendable (ScriptedTransaction, String?) throws -> Bool = { _, _ in false }
  var dependencyDidChange: @Sendable (ScriptedTransaction, String, any Sendable) throws -> Void = { _, _, _ in }
  var flush: @Sendable (ScriptedTransaction) throws -> Void = { _ in }
  var finish: @Sendable (ScriptedTransaction) throws -> Void = { _ in }
  var takeChanges: @Sendable (ScriptedTransaction) -> String? = { _ in nil }

  /// An extension that receives all rows and builds nothing.
  init(
    _ delivery: ExtensionConfiguration.Delivery = .afterCurrent, events: RowEvents = .all,
    needs: ExtensionConfiguration.Needs = []
  ) {
    configuration.delivery = delivery
    configuration.events = events
    configuration.needs = needs
    configuration.build = .none
  }

  func makeTransaction(_ context: ExtensionContext<Self>) throws -> ScriptedTransaction {
    try ScriptedTransaction(self, context)
  }
}

final class ScriptedTransaction: ExtensionTransaction {
  typealias Definition = Scripted
  private let definition: Scripted
  let context: ExtensionContext<Scripted>
  /// The parts by their name.
  let parts: [String: Part]
  /// A field whose value is kept through savepoints if the configuration demands it.
  var notes: [String] = []

  init(_ definition: Scripted, _ context: ExtensionContext<Scripted>) throws {
    self.definition = definition
    self.context = context
    parts = Dictionary(
      uniqueKeysWithValues: try definition.configuration.parts.map { ($0.name, try context.part($0.name)) })
  }

  func part(_ name: String) throws -> Part {
    guard let part = parts[name] else { throw DatabaseError(.invalidArgument, "no part \(name)") }
    return part
  }

  /// Returns the keys and values of a part as texts.
  func texts(_ name: String) throws -> [String] {
    var texts: [String] = []
    var cursor = try part(name).cursor()
    try cursor.forEach { texts.append(String(decoding: $0, as: UTF8.self) + "=" + String(decoding: $1, as: UTF8.self)) }
    return texts
  }

  func willChange(_ change: borrowing RowChange) throws { try definition.will(self, change) }
  func didChange(_ change: borrowing RowChange) throws { try definition.did(self, change) }
  func removesAll(in collection: String?) throws -> Bool { try definition.removesAll(self, collection) }
  func dependencyDidChange(_ name: String, _ change: any Sendable) throws {
    try definition.dependencyDidChange(self, name, change)
  }
  func flush() throws { try definition.flush(self) }
  func didFinishBuild() throws { try definition.finish(self) }
  func takeChanges() -> String? { definition.takeChanges(self) }
  func mark() -> Int { notes.count }
  func rollBack(to mark: Int) { notes.removeSubrange(mark...) }
}

/// The lines that the hooks of a test recorded, in order.
final class Lines: Sendable {
  private let lines = Mutex<[String]>([])
  func add(_ line: String) { lines.withLock { $0.append(line) } }
  func take() -> [String] {
    lines.withLock { lines in
      defer { lines = [] }
      return lines
    }
  }
}
