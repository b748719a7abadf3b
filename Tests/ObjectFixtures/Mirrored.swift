import EngineTestSupport
import Synchronization

@testable import Varve

/// Rows of numbers, and an extension that keeps each of them as a text with its version, so that its expected content
/// is known.
struct Mirrored {
  let lines = Lines()

  /// Returns an extension that keeps the rows of "c", and records which it receives.
  func definition(_ version: String, dependencies: [String] = []) -> Scripted {
    var mirror = Scripted(events: [.inserts, .updates, .removals])
    mirror.configuration.version = version
    mirror.configuration.scope = .only(["c"])
    mirror.configuration.parts = [PartDefinition("rows")]
    mirror.configuration.dependencies = dependencies
    mirror.configuration.build = .background
    mirror.did = { [lines] tx, change in
      let key = Array(change.key.text.utf8)
      lines.add("\(version) \(change.key.text)")
      guard let value = try change.row?.object(as: Int.self) else { return try tx.part("rows").delete(key) }
      try tx.part("rows").put(key, Array("\(version):\(value)".utf8))
    }
    mirror.removesAll = { tx, _ in
      try tx.part("rows").deleteRange(StorageRange())
      return true
    }
    return mirror
  }

  func fill(_ database: Database, _ keys: Range<Int>) throws {
    try database.change { tx in for key in keys { try tx.set(key, key: key, in: "c") } }
  }

  /// Returns the texts that a definition must keep for the rows of a transaction.
  func wanted(_ tx: ReadTransaction, _ version: String) throws -> [String] {
    var texts: [String] = []
    var rows = try tx.rows(in: "c")
    while let row = try rows.next() { texts.append("\(row.key.text)=\(version):\(try row.object(as: Int.self))") }
    return texts.sorted()
  }

  /// Returns whether the extension has the content that a definition of this version must have.
  func isRight(_ tx: ReadTransaction, _ handle: ExtensionHandle<Scripted>, _ version: String) throws -> Bool {
    try tx[handle].texts("rows").sorted() == wanted(tx, version)
  }

  func isRight(_ database: Database, _ handle: ExtensionHandle<Scripted>, _ version: String) throws -> Bool {
    try database.look { tx in try isRight(tx, handle, version) }
  }

  /// Returns the names of the families of extensions, sorted.
  func families(_ database: Database) throws -> [String] {
    try database.core.backend.families().map(\.name).filter { $0.hasPrefix("x.") }.sorted()
  }
}

/// A gate that stops a build once, between two chunks, until it is released.
final class HeldBuild: Sendable {
  private let isMeant: @Sendable (BuildProgress) -> Bool
  private let wasHeld = Atomic<Bool>(false)
  private let gate = Gate()

  /// Stops the build at the first progress for which `isMeant` returns true.
  init(when isMeant: @escaping @Sendable (BuildProgress) -> Bool) {
    self.isMeant = isMeant
    gate.shut()
  }

  /// Stops the build once at least `rows` rows are done.
  convenience init(after rows: Int) { self.init { $0.rowsDone >= rows } }

  /// The function to pass as `progress`.
  var progressed: @Sendable (BuildProgress) -> Void {
    { [self] progress in
      guard isMeant(progress), !wasHeld.exchange(true, ordering: .sequentiallyConsistent) else { return }
      gate.pass()
    }
  }

  func waitUntilHeld() { gate.waitUntilHeld() }
  func release() { gate.open() }
}
