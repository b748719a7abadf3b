/// The engines in this build. Only this code maps a kind to a type.
enum EngineRegistry {
  /// The engines of this build, Varve first.
  static var available: [EngineKind] {
    var kinds: [EngineKind] = []
    kinds.append(.varve)
    #if RocksDB
      kinds.append(.rocksdb)
    #endif
    #if LevelDB
      kinds.append(.leveldb)
    #endif
    #if LMDB
      kinds.append(.lmdb)
    #endif
    return kinds
  }

  /// The engines of this build with object workloads, Varve first.
  static var availableForObjects: [EngineKind] {
    var kinds: [EngineKind] = []
    kinds.append(.varve)
    #if SQLite
      kinds.append(.sqlite)
    #endif
    #if GRDB
      kinds.append(.grdb)
    #endif
    return kinds
  }

  /// The engines of this build with task workloads, Varve first.
  static var availableForTasks: [EngineKind] {
    var kinds: [EngineKind] = []
    kinds.append(.varve)
    #if SQLite
      kinds.append(.sqlite)
    #endif
    #if GRDB
      kinds.append(.grdb)
    #endif
    #if PostgreSQL
      kinds.append(.postgres)
    #endif
    return kinds
  }

  /// Returns whether an engine can be measured. The variants of Varve always can, but only run if they are named.
  static func isBuiltIn(_ kind: EngineKind) -> Bool { kind == .varvePwrite || available.contains(kind) }

  /// Returns whether the object workloads can be measured with an engine.
  static func isBuiltInForObjects(_ kind: EngineKind) -> Bool {
    kind == .varvePwrite || availableForObjects.contains(kind)
  }

  /// Returns whether the task workloads can be measured with an engine.
  static func isBuiltInForTasks(_ kind: EngineKind) -> Bool {
    kind == .varvePwrite || availableForTasks.contains(kind)
  }

  static func version(of kind: EngineKind) -> String {
    switch kind {
    case .varve: VarveAdapter.version
    case .varvePwrite: VarveAdapter.version + ", log by pwrite"
    #if RocksDB
      case .rocksdb: RocksDBEngine.version
    #endif
    #if LevelDB
      case .leveldb: LevelDBEngine.version
    #endif
    #if LMDB
      case .lmdb: LMDBEngine.version
    #endif
    #if SQLite
      case .sqlite: SQLiteObjects.version
    #endif
    #if GRDB
      case .grdb: GRDBObjects.version
    #endif
    #if PostgreSQL
      case .postgres: PostgresTaskEngine.version
    #endif
    default: "not in this build"
    }
  }

  /// Runs the workloads of one round against one engine.
  ///
  /// The code called by this switch is generic, so that the measured loops are compiled for each engine and call it
  /// without an existential.
  static func run(_ run: EngineRun, _ kind: EngineKind) throws {
    switch kind {
    case .varve: try run.execute(VarveAdapter.self)
    case .varvePwrite: try run.execute(VarveAdapter.self)
    #if RocksDB
      case .rocksdb: try run.execute(RocksDBEngine.self)
    #endif
    #if LevelDB
      case .leveldb: try run.execute(LevelDBEngine.self)
    #endif
    #if LMDB
      case .lmdb: try run.execute(LMDBEngine.self)
    #endif
    default: throw notBuiltIn(kind)
    }
  }

  /// Runs the object workloads of one round against one engine.
  static func runObjects(_ run: EngineRun, _ kind: EngineKind) throws {
    switch kind {
    case .varve, .varvePwrite: try run.executeObjects(VarveObjects.self)
    #if SQLite
      case .sqlite: try run.executeObjects(SQLiteObjects.self)
    #endif
    #if GRDB
      case .grdb: try run.executeObjects(GRDBObjects.self)
    #endif
    default: throw notBuiltIn(kind)
    }
  }

  /// Runs the relationship workloads of one round against one engine.
  static func runEdges(_ run: EngineRun, _ kind: EngineKind) throws {
    switch kind {
    case .varve, .varvePwrite: try run.executeEdges(VarveGraph.self)
    #if SQLite
      case .sqlite: try run.executeEdges(SQLiteGraph.self)
    #endif
    default: throw notBuiltIn(kind)
    }
  }

  /// Runs the view workloads of one round against one engine.
  static func runViews(_ run: EngineRun, _ kind: EngineKind) throws {
    switch kind {
    case .varve, .varvePwrite: try run.executeViews(VarveShelf.self)
    #if SQLite
      case .sqlite: try run.executeViews(SQLiteShelf.self)
    #endif
    #if GRDB
      case .grdb: try run.executeViews(GRDBShelf.self)
    #endif
    default: throw notBuiltIn(kind)
    }
  }

  /// Runs the task workloads of one round against one engine.
  static func runTasks(_ run: EngineRun, _ kind: EngineKind) throws {
    switch kind {
    case .varve, .varvePwrite: try run.executeTasks(VarveTaskEngine.self)
    #if SQLite
      case .sqlite: try run.executeTasks(SQLiteTaskEngine.self)
    #endif
    #if GRDB
      case .grdb: try run.executeTasks(GRDBTaskEngine.self)
    #endif
    #if PostgreSQL
      case .postgres: try run.executeTasks(PostgresTaskEngine.self)
    #endif
    default: throw notBuiltIn(kind)
    }
  }

  private static func notBuiltIn(_ kind: EngineKind) -> EngineFailure {
    EngineFailure("\(kind.rawValue) is not in this build; build with its trait (see Benchmarking)")
  }
}
