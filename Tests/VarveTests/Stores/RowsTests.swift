import Dispatch
import EngineTestSupport
import Foundation
import Synchronization
import Testing
import Varve

@testable import ObjectFixtures

/// Tests of instances as an asynchronous sequence.
struct RowsTests {
  /// A format that counts decodings, and therefore the instances that were fetched.
  private struct CountedFormat: StoreFormat {
    static let collection = "counted"
    struct Instance: Codable, Identifiable, Sendable {
      var id: Int
      var text = ""
    }
    static let decoded = Mutex<[String: Int]>([:])
    static func count(of text: String) -> Int { decoded.withLock { $0[text, default: 0] } }

    static func decode(_ stored: StoredValue, version: SingleVersion) throws -> Instance {
      let instance = try stored.decode(Instance.self)
      decoded.withLock { $0[instance.text, default: 0] += 1 }
      return instance
    }
  }

  private func filled(_ count: Int, _ location: StoreLocation = .memory) throws -> (OpenDatabase, Store<NoteFormat>) {
    let open = try location.open()
    let notes = Store<NoteFormat>(in: open.database)
    try open.writing { tx in try notes.persist(contentsOf: (0..<count).map(Note.init), in: tx) }
    return (open, notes)
  }

  private func ids(_ rows: Rows<Note>) async throws -> [Int] {
    var ids: [Int] = []
    for try await note in rows { ids.append(note.id) }
    return ids
  }

  // MARK: - Which rows

  @Test(arguments: StoreLocation.allCases)
  func `a sequence of all instances or a range is ordered, in both directions, up to the limit`(location: StoreLocation)
    async throws
  {
    let (open, notes) = try filled(1_000, location)
    defer { withExtendedLifetime(open) {} }
    #expect(try await ids(notes.load(...)) == Array(0..<1_000))
    #expect(try await ids(notes.load(..., descending: true)) == (0..<1_000).reversed())
    #expect(try await ids(notes.load(100..<600)) == Array(100..<600))
    #expect(try await ids(notes.load(998...)) == [998, 999])
    #expect(try await ids(notes.load(...3, descending: true)) == [3, 2, 1, 0])
    #expect(try await ids(notes.load(..., limit: 300)) == Array(0..<300))
    #expect(try await ids(notes.load(500..., descending: true, limit: 2)) == [999, 998])
    #expect(try await ids(notes.load(..., limit: 0)) == [])
    #expect(try await ids(notes.load(2_000...)) == [])
    #expect(await errorCode { _ = try await notes.load(..., limit: -1).first } == .invalidArgument)
  }

  @Test func `a sequence of rows works like any other`() async throws {
    let (open, notes) = try filled(10)
    defer { withExtendedLifetime(open) {} }
    #expect(try await notes.load(...).first { $0.id > 3 }?.id == 4)
    #expect(try await notes.load(...).reduce(into: []) { $0.append($1.id) } == Array(0..<10))
    #expect(try await notes.load(...).map(\.id).contains(7))
  }

  @Test func `first and collect return exactly what was requested`() async throws {
    let (open, notes) = try filled(600)
    defer { withExtendedLifetime(open) {} }
    #expect(try await notes.load(...).first == Note(0))
    #expect(try await notes.load(..., descending: true).first == Note(599))
    #expect(try await notes.load(700...).first == nil)
    for count in [0, 1, 3, 255, 256, 257, 512, 599] {
      #expect(try await notes.load(...).collect(upTo: count).count == count)
    }
    #expect(try await notes.load(...).collect(upTo: 601).count == 600)
    #expect(try await notes.load(..., limit: 5).collect(upTo: 10).count == 5)
    #expect(try await notes.load(...).collect().count == 600)
  }

  // MARK: - When

  @Test(arguments: StoreLocation.allCases)
  func `a sequence shows the database as of the call that made it`(location: StoreLocation) async throws {
    let (open, notes) = try filled(5, location)
    defer { withExtendedLifetime(open) {} }
    let rows = notes.load(...)
    try await notes.persist(Note(100))
    try await notes.delete(0)
    try await notes.modify(1) { $0.text = "changed" }
    #expect(try await rows.collect() == (0..<5).map(Note.init))
    #expect(try await ids(notes.load(...)) == [1, 2, 3, 4, 100])
  }

  @Test(arguments: StoreLocation.allCases)
  func `items and their metadata do not change, over many pages and in both directions`(
    location: StoreLocation
  ) async throws {
    let open = try location.open()
    let photos = Photo.store(in: open.database)
    // Every second photo has metadata; names are long, so that there are several pages.
    func photo(_ id: Int, _ round: Int) -> Photo {
      let size = (id + round).isMultiple(of: 2) ? Photo.Size(width: id + 1_000 * round) : nil
      return Photo(id: id, name: "\(round) " + String(repeating: "x", count: 200), metadata: size)
    }
    let before = (0..<700).map { photo($0, 0) }
    try await before.persist(in: open.database)
    let forwards = photos.load(...)
    let backwards = photos.load(..., descending: true)
    var inside: [Rows<Photo>] = []
    try open.writing { tx in
      try (0..<700).map { photo($0, 1) }.persist(in: tx)
      inside.append(photos.load(...))
      try (0..<700).map { photo($0, 2) }.persist(in: tx)
      try photos.delete(100..<200, in: tx)
    }
    #expect(try await forwards.collect() == before)
    #expect(try await backwards.collect() == before.reversed())
    #expect(try await inside[0].collect() == (0..<700).map { photo($0, 1) })
    let now = (0..<700).filter { !(100..<200).contains($0) }.map { photo($0, 2) }
    #expect(try await photos.load(...).collect() == now)
  }

  @Test(arguments: StoreLocation.allCases)
  func `a sequence may be iterated again, even concurrently, with the same result`(location: StoreLocation) async throws
  {
    let (open, notes) = try filled(700, location)
    defer { withExtendedLifetime(open) {} }
    let rows = notes.load(...)
    #expect(try await ids(rows) == Array(0..<700))
    try await notes.delete(...)
    async let first = ids(rows)
    async let second = ids(rows)
    #expect(try await first == Array(0..<700))
    #expect(try await second == Array(0..<700))
    var one = rows.makeAsyncIterator()
    var other = rows.makeAsyncIterator()
    for id in 0..<300 {
      #expect(try await one.next()?.id == id)
      if id.isMultiple(of: 2) { #expect(try await other.next()?.id == id / 2) }
    }
  }

  @Test(arguments: StoreLocation.allCases)
  func `a sequence made inside a write shows what that has written until then, even after its end`(
    location: StoreLocation
  ) async throws {
    let (open, notes) = try filled(3, location)
    var made: [Rows<Note>] = []
    try open.writing { tx in
      try notes.delete(0, in: tx)
      made.append(notes.load(...))
      try notes.insert(Note(9), in: tx)
      made.append(notes.load(...))
    }
    #expect(throws: StoreStop.self) {
      try open.writing { tx in
        try notes.delete(..., in: tx)
        made.append(notes.load(...))
        throw StoreStop()
      }
    }
    try await notes.delete(...)
    var seen: [[Int]] = []
    for rows in made { seen.append(try await ids(rows)) }
    #expect(seen == [[1, 2], [1, 2, 9], []])
  }

  @Test(arguments: StoreLocation.allCases)
  func `a sequence made inside perform shows what that has written until then`(location: StoreLocation) async throws {
    let (open, notes) = try filled(3, location)
    let made = try await open.database.perform {
      try await notes.delete(0)
      let rows = notes.load(...)
      try await notes.insert(Note(9))
      #expect(try await ids(rows) == [1, 2])
      #expect(try await ids(notes.load(...)) == [1, 2, 9])
      var seen: [Int] = []
      for try await note in notes.load(...) {
        try await notes.delete(note)
        seen.append(note.id)
      }
      #expect(seen == [1, 2, 9])
      return rows
    }
    #expect(try await ids(made) == [1, 2])
    #expect(try await notes.count == 0)
  }

  @Test func `a sequence made while a child task has its turn is as of the call`() async throws {
    let (open, notes) = try filled(2)
    let gate = Gate()
    gate.shut()
    let (begun, begin) = AsyncStream.makeStream(of: Void.self)
    // The child task waits on a thread other than those this test needs.
    let executor = QueueExecutor()
    let database = open.database
    try await database.perform {
      try await withThrowingTaskGroup(of: Void.self) { group async throws in
        group.addTask(executorPreference: executor) {
          try await database.write { tx in
            try notes.insert(Note(50), in: tx)
            begin.finish()
            gate.pass()
          }
        }
        for await _ in begun {}
        let rows = notes.load(...)
        group.addTask(executorPreference: executor) { try await notes.insert(Note(60)) }
        gate.open()
        try await group.waitForAll()
        // The slow call began before the sequence, and the other one after it: the sequence is ordered between them.
        #expect(try await ids(rows) == [0, 1, 50])
        #expect(try await ids(notes.load(...)) == [0, 1, 50, 60])
      }
    }
  }

  @Test func `a sequence made after the end of its perform has rows of the committed state`() async throws {
    let (open, notes) = try filled(2)
    let (ended, end) = AsyncStream.makeStream(of: Void.self)
    let late = try await open.database.perform {
      Task {
        for await _ in ended {}
        return try await notes.load(...).first
      }
    }
    end.finish()
    #expect(try await late.value?.id == 0)
  }

  @Test func `the rows of a closed database are not read`() async throws {
    let database = try await Database.inMemory()
    let notes = Store<NoteFormat>(in: database)
    try await notes.persist(contentsOf: (0..<1_000).map(Note.init))
    let rows = notes.load(...)
    var iterator = rows.makeAsyncIterator()
    #expect(try await iterator.next()?.id == 0)
    try await database.close()
    #expect(await errorCode { while try await iterator.next() != nil {} } == .closed)
    #expect(await errorCode { _ = try await rows.first } == .closed)
    #expect(await errorCode { _ = try await notes.load(...).first } == .closed)
  }

  // MARK: - Cost

  @Test(arguments: [true, false])
  func `rows are fetched 256 at a time, and one alone for the first`(isInMemory: Bool) async throws {
    let name = "256 \(isInMemory)"
    let backend = try SharedBackend(isInMemory: isInMemory)
    let store = Store<CountedFormat>(in: try backend.open())
    try await store.persist(contentsOf: (0..<1_000).map { CountedFormat.Instance(id: $0, text: name) })
    let rows = store.load(...)
    #expect(CountedFormat.count(of: name) == 0)
    _ = try await rows.first
    #expect(CountedFormat.count(of: name) == 1)
    var iterator = rows.makeAsyncIterator()
    for id in 0..<1_000 {
      #expect(try await iterator.next()?.id == id)
      #expect(CountedFormat.count(of: name) == 1 + min(1_000, (id / 256 + 1) * 256))
    }
  }

  @Test func `large rows are fetched 64 KiB at a time`() async throws {
    let text = String(repeating: "10 KiB    ", count: 1_024)
    let store = Store<CountedFormat>(in: try SharedBackend().open())
    try await store.persist(contentsOf: (0..<100).map { CountedFormat.Instance(id: $0, text: text) })
    var iterator = store.load(...).makeAsyncIterator()
    _ = try await iterator.next()
    #expect(CountedFormat.count(of: text) == 7)
  }

  @Test(arguments: [true, false])
  func `the snapshot is released with the sequence and its iterators`(isInMemory: Bool) async throws {
    let backend = try SharedBackend(isInMemory: isInMemory)
    let notes = Store<NoteFormat>(in: try backend.open())
    try await notes.persist(contentsOf: (0..<1_000).map(Note.init))
    let before = backend.asked.snapshots
    do {
      let rows = notes.load(...)
      #expect(backend.asked.snapshots == before + 1)
      var iterator = rows.makeAsyncIterator()
      _ = try await iterator.next()
      #expect(backend.asked.snapshots == before + 1)
    }
    #expect(backend.asked.snapshots == before)
    for try await note in notes.load(...) where note.id == 300 { break }
    #expect(backend.asked.snapshots == before)
  }

  // MARK: - End

  @Test(arguments: StoreLocation.allCases)
  func `a canceled task gets CancellationError, and blocks no other`(location: StoreLocation) async throws {
    let (open, notes) = try filled(1_000, location)
    defer { withExtendedLifetime(open) {} }
    let (reached, reach) = AsyncStream.makeStream(of: Void.self)
    let (resumed, resume) = AsyncStream.makeStream(of: Void.self)
    let task = Task {
      var count = 0
      for try await _ in notes.load(...) {
        count += 1
        if count == 10 {
          reach.finish()
          // The task is detached, because this task's cancellation would end the wait.
          await Task.detached { for await _ in resumed {} }.value
        }
      }
    }
    for await _ in reached {}
    task.cancel()
    resume.finish()
    await #expect(throws: CancellationError.self) { try await task.value }
    try await notes.persist(Note(5_000))
    #expect(try await notes.count == 1_001)
  }

  @Test(arguments: StoreLocation.allCases)
  func `a row that can't be decoded is thrown at its turn, and ends the iteration`(
    location: StoreLocation
  ) async throws {
    let open = try location.open()
    struct RawNotes: StoreFormat {
      static let collection = "json notes"
      static let coder = CoderKind.json
      typealias Instance = Note
    }
    let notes = Store<RawNotes>(in: open.database)
    try await notes.persist(contentsOf: (0..<10).map(Note.init))
    try open.writing { tx in try tx.setBytes(Array("{}".utf8), key: 5, in: "json notes") }
    var iterator = notes.load(...).makeAsyncIterator()
    for id in 0..<5 { #expect(try await iterator.next()?.id == id) }
    do {
      _ = try await iterator.next()
      Issue.record("the row should not be read")
    } catch let error as DatabaseError {
      #expect(error.code == .decodingFailed)
      #expect(error.key == "5")
      #expect(error.collection == "json notes")
    }
    #expect(try await iterator.next() == nil)
    #expect(try await notes.load(6...).collect().count == 4)
  }

  @Test @MainActor func `an iteration on an actor stays on that actor`() async throws {
    let (open, notes) = try filled(600, .disk)
    defer { withExtendedLifetime(open) {} }
    var count = 0
    for try await _ in notes.load(...) {
      MainActor.assertIsolated()
      count += 1
    }
    #expect(count == 600)
  }
}

/// An executor with separate threads, which may block.
private final class QueueExecutor: TaskExecutor {
  private let queue = DispatchQueue(label: "test", attributes: .concurrent)

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    queue.async { unsafe job.runSynchronously(on: self.asUnownedTaskExecutor()) }
  }
}
