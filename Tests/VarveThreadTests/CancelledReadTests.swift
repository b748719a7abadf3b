import EngineTestSupport
import Synchronization
import Testing
import VarveEngine
import VarveTestSupport

@testable import Varve

private struct Note: Persistable, Equatable {
  static let collection = "notes"
  var id: Int
  var group: Int
  var tags: [String]
  var text: String
  struct Size: Codable, Sendable, Equatable { var size: Int }
  @StoredSeparately var metadata: Size? = Size(size: 1)
}

private struct NoteFormat: StoreFormat {
  static let collection = "notes"
  typealias Instance = Note
  typealias Metadata = Note.Size
  static var metadataPath: (any WritableKeyPath<Note, Note.Size?> & Sendable)? { \Note.metadata }
  let group = Index(\.group)
  let both = Index(\.group, \.text)
  let unique = OneToOneIndex(\.id)
  let counted = Index(\.text, \.group, counted: true)
}

/// A storage that cancels a task when it has read something for it, and counts what is read afterwards.
private final class CancellingBackend: ObservedBackend, @unchecked Sendable {
  // Sendable: its state is guarded.
  private let state = Mutex((task: Task<Void, any Error>?.none, reads: 0))

  override var isInMemory: Bool { false }

  /// Cancels `task` at the next read, and counts from then on.
  func arm(_ task: Task<Void, any Error>) { state.withLock { $0 = (task, 0) } }

  /// The number of reads since the task was cancelled.
  var reads: Int { state.withLock { $0.task == nil ? $0.reads : 0 } }

  private func note() {
    let task = state.withLock { state in
      defer { state.task = nil }
      if state.task == nil { state.reads += 1 }
      return state.task
    }
    task?.cancel()
  }

  override func willRead(_ keys: [[UInt8]], in family: StorageFamily) { note() }
  override func didRead(_ page: StoragePage, of range: StorageRange, in family: StorageFamily, isReverse: Bool) {
    note()
  }
}

/// Tests that every asynchronous read ends when its task is cancelled.
struct CancelledReadTests {
  /// What the reads read.
  private struct Site: Sendable {
    let database: Database
    let store: Store<NoteFormat>
    let backend: CancellingBackend
    let directory: TemporaryDirectory
    var query: StoreQuery<NoteFormat> { store.query.filter { $0.text.contains("q") }.scan() }
    var counted: StoreQuery<NoteFormat> { store.query.sorted(by: \.text).sorted(by: \.group) }
    var sectioned: SectionedQuery<NoteFormat, String> { store.query.sorted(by: \.group).sectioned(by: \.text) }
    var connection: Connection { database.connection() }
  }

  private typealias Read = @Sendable (Site) async throws -> Void

  /// The reads that read more than a few rows: they end at the next read of the storage.
  private static let long: [String: Read] = [
    "Connection.read(_:)": { site in _ = try await site.connection.read { tx in try site.query.count(in: tx) } },
    "Database.read(_:)": { site in _ = try await site.database.read { tx in try site.query.count(in: tx) } },
    "Database.read(isolation:_:)": { site in
      _ = try await site.database.read(isolation: #isolation) { tx in try site.query.count(in: tx) }
    },
    "Database.verifyIndexes(of:sample:)": { site in _ = try await site.database.verifyIndexes(of: "lines") },
    "HeldSnapshot.read(_:)": { site in
      _ = try await site.database.holdSnapshot().read { tx in try site.query.count(in: tx) }
    },
    "IncludingQuery.fetch()": { site in
      _ = try await site.store.query.including(.instance(\.id, from: site.store)).fetch()
    },
    "QueryObservation.next()": { site in for try await _ in site.query.changes() { return } },
    "ReadObservation.next()": { site in
      for try await _ in site.database.observe({ tx in try site.query.count(in: tx) }) { return }
    },
    "ReadObservation.next() of observers that share": { site in for try await _ in site.query.observeCount() { return }
    },
    "Rows.collect()": { site in _ = try await site.store.load(...).collect() },
    "Rows.next(isolation:)": { site in for try await _ in site.store.load(...) {} },
    "Store.count(_:)": { site in _ = try await site.store.count(10...) },
    "Store.count(_:from:)": { site in _ = try await site.store.count(.range(0...), from: \.group) },
    "Store.load(ids:)": { site in _ = try await site.store.load(ids: 0..<1_000) },
    "Store.metadata(ids:)": { site in _ = try await site.store.metadata(ids: 0..<1_000) },
    "Store.verifyIndexes(sample:)": { site in _ = try await site.store.verifyIndexes() },
    "StoreQuery.average(of:)": { site in _ = try await site.query.average(of: \.group) },
    "StoreQuery.count()": { site in _ = try await site.query.count() },
    "StoreQuery.distinct(_:)": { site in _ = try await site.query.distinct(\.group) },
    "StoreQuery.distinct(elementsOf:)": { site in _ = try await site.query.distinct(elementsOf: \.tags) },
    "StoreQuery.exists()": { site in _ = try await site.query.exists() },
    "StoreQuery.fetch()": { site in _ = try await site.query.fetch() },
    "StoreQuery.fetch() with a sort": { site in _ = try await site.store.query.sorted(by: \.text).scan().fetch() },
    "StoreQuery.first()": { site in _ = try await site.query.first() },
    "StoreQuery.grouped(by:)": { site in _ = try await site.query.grouped(by: \.group) },
    "StoreQuery.grouped(by:summing:)": { site in _ = try await site.query.grouped(by: \.group, summing: \.id) },
    "StoreQuery.grouped(byElementsOf:)": { site in _ = try await site.query.grouped(byElementsOf: \.tags) },
    "StoreQuery.ids()": { site in _ = try await site.query.ids() },
    "StoreQuery.max(of:)": { site in _ = try await site.query.max(of: \.group) },
    "StoreQuery.min(of:)": { site in _ = try await site.query.min(of: \.group) },
    "StoreQuery.page(after:size:)": { site in _ = try await site.query.page(size: 10) },
    "StoreQuery.page(before:size:)": { site in _ = try await site.query.page(before: nil, size: 10) },
    "StoreQuery.sum(of:)": { site in _ = try await site.query.sum(of: \.group) },
    "StoreQuery.values(of:)": { site in _ = try await site.query.values(of: \.group) },
    "Persistable.load(ids:in:)": { site in _ = try await Note.load(ids: 0..<1_000, in: site.database) },
  ]

  /// The other reads: a task that is cancelled before makes none of them.
  private static let short: [String: Read] = [
    "ChangeSequence.next()": { site in for try await _ in site.database.changes(after: .zero) { return } },
    "CollectionObservation.next()": { site in for try await _ in site.database.observe(in: "notes") { return } },
    "Connection.advance()": { site in _ = try await site.connection.advance() },
    "Connection.advanceHolding()": { site in _ = try await site.connection.advanceHolding() },
    "Connection.beginLongLivedRead()": { site in _ = try await site.connection.beginLongLivedRead() },
    "Database.backup(to:progress:)": { site in try await site.database.backup(to: site.directory.path + "/copy") },
    "Database.feed(after:limit:)": { site in _ = try await site.database.feed() },
    "ObjectObservation.next()": { site in
      for try await _ in site.database.observe(Note.self, key: 1, in: "notes") { return }
    },
    "Persistable.load(_:in:)": { site in _ = try await Note.load(1, in: site.database) },
    "Persistable.metadata(of:in:)": { site in _ = try await Note.metadata(of: 1, in: site.database) },
    "Rows.collect(upTo:)": { site in _ = try await site.store.load(...).collect(upTo: 3) },
    "Rows.first": { site in _ = try await site.store.load(...).first },
    "SectionedQuery.count()": { site in _ = try await site.sectioned.count() },
    "SectionedQuery.count(of:)": { site in _ = try await site.sectioned.count(of: "text 1") },
    "SectionedQuery.fetch(of:at:)": { site in _ = try await site.sectioned.fetch(of: "text 1", at: 0..<1) },
    "SectionedQuery.ids(of:at:)": { site in _ = try await site.sectioned.ids(of: "text 1", at: 0..<1) },
    "SectionedQuery.place(of:)": { site in _ = try await site.sectioned.place(of: 1) },
    "SectionedQuery.sections()": { site in _ = try await site.sectioned.sections() },
    "Store.contains(_:)": { site in _ = try await site.store.contains(1) },
    "Store.count": { site in _ = try await site.store.count },
    "Store.load(_:)": { site in _ = try await site.store.load(1) },
    "Store.load(_:from:)": { site in _ = try await site.store.load(.value(1), from: \.unique) },
    "Store.metadata(of:)": { site in _ = try await site.store.metadata(of: 1) },
    "Store.undecodableRows(limit:)": { site in _ = try await site.store.undecodableRows() },
    "Store.unindexedRows()": { site in _ = try await site.store.unindexedRows() },
    "StoreQuery.fetch(at:)": { site in _ = try await site.counted.fetch(at: 0..<3) },
    "StoreQuery.ids(at:)": { site in _ = try await site.counted.ids(at: 0..<3) },
    "StoreQuery.offset(of:)": { site in _ = try await site.counted.offset(of: 1) },
    "StoreQuery.explain()": { site in _ = try await site.query.explain() },
  ]

  /// The calls that read nothing for the caller: they change the database, open or close it, or wait for a build.
  private static let others: Set<String> = [
    "CommitSignals.next()", "Database.readWhileOpen(_:)", "Connection.write(label:durability:_:)", "Database.close()",
    "Database.commitIndependently(label:durability:_:)",
    "Database.define(_:)", "Database.dropCollection(_:)", "Database.giveUpDamagedBlocks(at:options:)",
    "Database.inMemory(definition:options:)", "Database.inMemory(options:DatabaseDefinitionBuilder:)",
    "Database.open(_:path:definition:options:)", "Database.open(_:path:options:DatabaseDefinitionBuilder:)",
    "Database.open(at:definition:options:)", "Database.open(at:options:DatabaseDefinitionBuilder:)",
    "Database.perform(label:durability:isolation:_:)", "Database.waitUntilReady(_:)", "Database.rebuild(_:)",
    "Database.register(_:as:progress:)", "Database.register(_:as:replacing:progress:)",
    "Database.renameCollection(_:to:)",
    "Database.retry(_:)", "Database.sync(through:)", "Database.unregister(_:)", "Database.warmIndexes(of:)",
    "Database.withOpen(at:definition:options:isolation:_:)", "Database.write(label:durability:writerTimeout:_:)",
    "Database.write(label:durability:writerTimeout:isolation:_:)",
    "Database.writeConcurrently(label:durability:_:)", "EngineBackend.changes(since:)",
    "Persistable.delete(_:in:label:durability:)", "Persistable.delete(in:label:durability:)",
    "Persistable.deleteIfPresent(in:label:durability:)", "Persistable.insert(in:label:durability:)",
    "Persistable.modify(_:in:label:durability:_:)", "Persistable.persist(in:label:durability:)",
    "Persistable.update(in:label:durability:)",
    "Sequence.delete(in:label:durability:)", "Sequence.persist(in:label:durability:)",
    "Store.delete(_:label:durability:)", "Store.delete(ids:label:durability:)",
    "Store.deleteIfPresent(_:label:durability:)", "Store.insert(_:for:label:durability:)",
    "Store.insert(bulk:label:durability:progress:)",
    "Store.insert(_:for:metadata:label:durability:)", "Store.insert(_:label:durability:)",
    "Store.insert(_:metadata:label:durability:)", "Store.migrate(olderThan:progress:)",
    "Store.modify(_:label:durability:_:)", "Store.persist(_:for:label:durability:)",
    "Store.persist(_:for:metadata:label:durability:)", "Store.persist(_:label:durability:)",
    "Store.persist(_:metadata:label:durability:)", "Store.persist(bulk:label:durability:progress:)",
    "Store.persist(contentsOf:label:durability:)",
    "Store.rebuild(_:)", "Store.setMetadata(_:of:label:durability:)", "Store.update(_:for:label:durability:)",
    "Store.update(_:for:metadata:label:durability:)", "Store.update(_:label:durability:)",
    "Store.update(_:metadata:label:durability:)", "Store.warm(_:)", "StoreQuery.delete(inBatchesOf:label:durability:)",
    "StoreQuery.delete(label:durability:)", "StoreQuery.update(inBatchesOf:label:durability:_:)",
    "StoreQuery.update(label:durability:_:)",
  ]

  private static let byText = RowIndex("byText", in: "lines", version: 1) { row in try row.object(as: String.self) }

  private static func filled() async throws -> Site {
    let definition = try DatabaseDefinition {
      NoteFormat.self
      try CollectionDefinition("lines", String.self, key: Int.self).indexed(by: byText)
    }
    let base = try EngineBackend(try Engine.open(at: "/cancelled", environment: .inMemory()), isInMemory: true)
    let backend = CancellingBackend(base)
    let database = try await Database.open(backend, path: "/cancelled", definition: definition, options: .patient)
    let store = Store<NoteFormat>(in: database)
    try await database.write { tx in
      for id in 0..<2_000 {
        try store.persist(Note(id: id, group: id % 7, tags: ["a", "b"], text: "text \(id)"), in: tx)
        try tx.set("line \(id)", key: id, in: "lines")
      }
    }
    try await store.warm()
    try await database.warmIndexes(of: "lines")
    return Site(database: database, store: store, backend: backend, directory: try TemporaryDirectory())
  }

  @Test func `every public asynchronous call is in one of the lists`() throws {
    let known = Set(Self.long.keys.map(Self.call)).union(Self.short.keys).union(Self.others)
    let declared = try PublicCalls.asynchronous(in: "Varve")
    #expect(declared.count > 100)
    #expect(declared.subtracting(known).sorted() == [], "an asynchronous call is in none of the lists")
    #expect(known.subtracting(declared).sorted() == [], "a call of the lists is no longer declared")
  }

  /// The name of a call, without what distinguishes two rows of the list.
  private static func call(_ name: String) -> String {
    if let end = name.firstIndex(of: ")") { return String(name[...end]) }
    return name
  }

  @Test func `a task that was cancelled before makes no read`() async throws {
    let site = try await Self.filled()
    for (name, read) in Self.long.merging(Self.short, uniquingKeysWith: { first, _ in first }) {
      let task = Task {
        Task.cancelCurrent()
        try await read(site)
      }
      await #expect(throws: CancellationError.self, "\(name)") { try await task.value }
    }
    try await site.database.close()
  }

  @Test func `a read whose task is cancelled makes no further read of the storage`() async throws {
    let site = try await Self.filled()
    for (name, read) in Self.long {
      let gate = Gate()
      gate.shut()
      let task = Task {
        await gate.passSuspended()
        try await read(site)
      }
      site.backend.arm(task)
      gate.open()
      await #expect(throws: CancellationError.self, "\(name)") { try await task.value }
      #expect(site.backend.reads == 0, "\(name)")
    }
    try await site.database.close()
  }

  @Test func `a cancelled task ends no read inside a write`() async throws {
    let site = try await Self.filled()
    let writer = Task {
      try await site.database.write { tx throws in
        Task.cancelCurrent()
        #expect(try site.store.query.filter { $0.group == 3 }.delete(in: tx) > 200)
      }
    }
    try await writer.value
    #expect(try await site.store.count(.value(3), from: \.group) == 0)
    try await site.database.close()
  }

  // MARK: - Observers

  /// An iterator that two tasks use one after the other.
  private final class Shared<Base: AsyncSequence>: @unchecked Sendable where Base.Element: Sendable {
    // Sendable: the second task begins after the first.
    var iterator: Base.AsyncIterator
    init(_ observation: Base) { iterator = observation.makeAsyncIterator() }
    func next() async throws -> Base.Element? { try await iterator.next() }
  }

  /// Cancels the first call of an iteration while it reads, and returns what the second one returns.
  private static func second<Base: AsyncSequence & Sendable>(
    of observation: Base, _ site: Site
  ) async throws -> Base.Element? where Base.Element: Sendable {
    let shared = Shared(observation)
    let gate = Gate()
    gate.shut()
    let task = Task<Void, any Error> {
      await gate.passSuspended()
      _ = try await shared.next()
    }
    site.backend.arm(task)
    gate.open()
    let error = await #expect(throws: CancellationError.self) { try await task.value }
    return error == nil ? nil : try await shared.next()
  }

  @Test func `an observer whose read was cancelled receives the value at its next call`() async throws {
    let site = try await Self.filled()
    let query = site.store.query.filter { $0.text.contains("text") }.scan()
    #expect(try await Self.second(of: query.observeCount(), site) == 2_000)
    #expect(try await Self.second(of: site.database.observe { tx in try query.count(in: tx) }, site) == 2_000)
    #expect(try await Self.second(of: query.changes(), site)?.ids.count == 2_000)
    try await site.database.close()
  }

  @Test func `a shared read continues for the others when an observer leaves, and ends with the last`() async throws {
    let shared = SharedRead<Int>()
    let gate = Gate()
    gate.shut()
    let begun = Atomic(0)
    let ended = Atomic(0)
    let body: @Sendable () async throws -> SharedRead<Int>.Found? = {
      begun.add(1, ordering: .sequentiallyConsistent)
      await gate.passSuspended()
      ended.add(Task.isCancelled ? 100 : 1, ordering: .sequentiallyConsistent)
      try Task.checkCancellation()
      return SharedRead.Found(version: CommitVersion(1), value: 7, reads: RecordedReads([], [:], sawUnready: false))
    }
    let observers = (0..<3).map { _ in Task { try await shared.value(since: CommitVersion(1), body)?.value } }
    while shared.waitingCount < 3 { await Task.yield() }
    observers[0].cancel()
    await #expect(throws: CancellationError.self) { try await observers[0].value }
    #expect(begun.load(ordering: .sequentiallyConsistent) == 1)
    gate.open()
    #expect(try await observers[1].value == 7)
    #expect(try await observers[2].value == 7)
    #expect(begun.load(ordering: .sequentiallyConsistent) == 1)
    #expect(ended.load(ordering: .sequentiallyConsistent) == 1)

    gate.shut()
    let last = (0..<2).map { _ in Task { try await shared.value(since: CommitVersion(2), body)?.value } }
    while shared.waitingCount < 2 { await Task.yield() }
    for observer in last {
      observer.cancel()
      await #expect(throws: CancellationError.self) { try await observer.value }
    }
    gate.open()
    while ended.load(ordering: .sequentiallyConsistent) == 1 { await Task.yield() }
    #expect(ended.load(ordering: .sequentiallyConsistent) == 101)
  }
}

extension Task where Success == Never, Failure == Never {
  /// Cancels the task that calls this.
  fileprivate static func cancelCurrent() { unsafe withUnsafeCurrentTask { unsafe $0?.cancel() } }
}
