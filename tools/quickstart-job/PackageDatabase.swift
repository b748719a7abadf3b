import Varve
import VarveEngine
import VarveTasks

/// The packages as objects in an open engine, which are written and read only through their store.
struct PackageDatabase {
  /// The number of packages that a transaction writes.
  static let transactionSize = 1_000

  let database: Database
  let store: Store<PackageFormat>

  /// Opens the object database over an engine, which `close` closes.
  init(_ engine: Engine, path: String) throws {
    self.init(
      try Database.open(try EngineBackend(engine), path: path, definition: try Self.definition()))
  }

  /// Uses an open database that has `definition`.
  init(_ database: Database) {
    self.database = database
    store = Store(in: database)
  }

  static func definition() throws -> DatabaseDefinition {
    let definition = DatabaseDefinition {
      PackageFormat.self
      PackageName.self
      DebianPackage.graph
      DebianPackage.sections
      CheckedPackage.self
      TaskStorage.handle
    }
    return definition
  }

  func close() throws { try database.close() }

  /// The result of a load.
  struct Loaded {
    /// The expected content of the database. If two stanzas describe one package, the later one counts.
    var packages: [PackageID: DebianPackage] = [:]
    var stanzaCount = 0
    var transactionCount = 0
    /// The time within transactions, without that of reading the index.
    var writing = Duration.zero
  }

  /// Writes every package of an index, a thousand per transaction.
  func load(_ index: PackageIndex) throws -> Loaded {
    var loaded = Loaded()
    var batch: [DebianPackage] = []
    func write() throws {
      guard !batch.isEmpty else { return }
      loaded.writing += try ContinuousClock().measure {
        try database.write { tx in
          try store.persist(contentsOf: batch, in: tx)
          for name in Set(batch.map(\.id.name)) { try PackageName(id: name).persist(in: tx) }
        }
      }
      loaded.transactionCount += 1
      batch.removeAll(keepingCapacity: true)
    }
    try index.forEach { package in
      loaded.stanzaCount += 1
      loaded.packages[package.id] = package
      batch.append(package)
      if batch.count == Self.transactionSize { try write() }
    }
    try write()
    return loaded
  }
}
