import EngineTestSupport
import Foundation
import Testing
import VarveEngine

@testable import ObjectFixtures
@testable import Varve

/// Tests of custom coders: the bytes that they write, and collections in which one coder succeeds another.
struct OwnCoderTests {
  private struct Note: Codable, Identifiable, Hashable, Sendable {
    var id: Int
    var text: String
  }

  /// The coders of notes as one start of the program defines them.
  private protocol Start: Sendable {
    static var coder: CoderKind { get }
    static var formerCoders: [CoderKind] { get }
  }
  private enum Binary: Start {
    static let coder = CoderKind.binary
    static let formerCoders: [CoderKind] = []
  }
  private enum Masked: Start {
    static let coder = CoderKind.own(MaskedCoder.self)
    static let formerCoders: [CoderKind] = []
  }
  private enum MaskedAfterBinary: Start {
    static let coder = CoderKind.own(MaskedCoder.self)
    static let formerCoders = [CoderKind.binary]
  }
  private enum SecondAfterMasked: Start {
    static let coder = CoderKind.own(SecondCoder.self)
    static let formerCoders = [CoderKind.own(MaskedCoder.self)]
  }
  private enum SecondAlone: Start {
    static let coder = CoderKind.own(SecondCoder.self)
    static let formerCoders: [CoderKind] = []
  }
  private enum BinaryAfterMasked: Start {
    static let coder = CoderKind.binary
    static let formerCoders = [CoderKind.own(MaskedCoder.self)]
  }

  private struct Notes<Program: Start>: StoreFormat {
    typealias Instance = Note
    typealias Metadata = [String]
    static var collection: String { "notes" }
    static var coder: CoderKind { Program.coder }
    static var formerCoders: [CoderKind] { Program.formerCoders }
    let text = Index(\.text)
    @Direct var direct = Index(\.text, name: "textAndRow")
  }

  private let shared: SharedBackend

  init() throws { shared = try SharedBackend() }

  /// Runs one start of the program.
  private func run<Program: Start>(
    _ program: Program.Type, _ body: (Database, Store<Notes<Program>>) throws -> Void
  ) throws {
    let database = try shared.open(DatabaseDefinition { Notes<Program>.self })
    try body(database, Store(in: database))
    try database.endNow()
  }

  private func put<Program: Start>(
    _ database: Database, _ notes: Store<Notes<Program>>, _ ids: ClosedRange<Int>, _ word: String
  ) throws {
    try database.change { tx throws in
      for id in ids {
        try notes.persist(Note(id: id, text: "\(word) \(id)"), metadata: id % 2 == 0 ? [word] : nil, in: tx)
      }
    }
  }

  private func openError<Program: Start>(_ program: Program.Type) -> DatabaseError? {
    do {
      try run(program) { _, _ throws in }
      return nil
    } catch { return error as? DatabaseError }
  }

  /// Returns the coder marks of the rows and of their metadata, by key.
  private func marks(_ database: Database) throws -> [Int: [UInt8?]] {
    let info = try #require(database.core.catalog.collection("notes"))
    return try database.look { tx in
      var found: [Int: [UInt8?]] = [:]
      var rows = try tx.rows(in: "notes")
      while let row = try rows.next() {
        var marks = [try unsafe RowHeader.read(row.storedBytes.span.bytes).header.coder]
        if let bytes = try tx.value(of: row.storageKey, in: info.metadata) {
          marks.append(try unsafe RowHeader.readMetadata(bytes.span.bytes).coder)
        }
        found[try row.key()] = marks
      }
      return found
    }
  }

  // MARK: - One coder

  @Test(arguments: [CollectionStorage.shared, .own()])
  func `rows and metadata are the coder's bytes, and are read again after reopening`(
    storage: CollectionStorage
  ) throws {
    let definition = DatabaseDefinition {
      CollectionDefinition("notes", Note.self, key: Int.self, coder: .own(MaskedCoder.self), storage: storage)
    }
    for _ in 0..<2 {
      let database = try shared.open(definition)
      try database.change { tx in try tx.set(Note(id: 1, text: "a"), key: 1, in: "notes", metadata: ["m"]) }
      try database.look { tx throws in
        let row = try #require(try tx.row(key: 1, in: "notes"))
        #expect(try row.object(as: Note.self) == Note(id: 1, text: "a"))
        #expect(try row.metadata(as: [String].self) == ["m"])
        #expect(row.objectBytes == (try MaskedCoder.encode(Note(id: 1, text: "a"))))
        #expect(try row.metadataBytes() == MaskedCoder.encode(["m"]))
        // This is the collection's first coder, whose number rows do not store.
        #expect(row.storedBytes[0] == 1)
      }
      #expect(try marks(database) == [1: [nil, nil]])
      #expect(database.core.catalog.coderName(16) == "org.example.masked")
      #expect(database.core.catalog.collection("notes")?.record.bytes.prefix(6) == [1, 0, 0, 0, 1, 16])
      try database.endNow()
    }
  }

  @Test func `coders are numbered in the order of their first use, and keep their numbers`() throws {
    func open(_ coders: [CoderKind]) throws -> [UInt8] {
      let definition = DatabaseDefinition {
        for (index, coder) in coders.enumerated() {
          CollectionDefinition("c\(index)", Note.self, key: Int.self, coder: coder, formerCoders: coders)
        }
      }
      let database = try shared.open(definition)
      defer { try? database.endNow() }
      return coders.indices.compactMap { database.core.catalog.collection("c\($0)")?.record.writer }
    }
    let (masked, second) = (CoderKind.own(MaskedCoder.self), CoderKind.own(SecondCoder.self))
    #expect(try open([masked]) == [16])
    #expect(try open([masked, second]) == [16, 17])
    #expect(try open([second, masked]) == [17, 16])
    #expect(try open([.json, masked, second]) == [2, 16, 17])
  }

  @Test func `a number that rows may use, and whose name the catalog has lost, is not reused`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/database"
    let definition = DatabaseDefinition { Notes<Binary>.self }
    let first = try OpenDatabase.database(in: directory, definition)
    try put(first, Store<Notes<Binary>>(in: first), 1...1, "old")
    try first.endNow()
    let switched = try OpenDatabase.database(in: directory, DatabaseDefinition { Notes<MaskedAfterBinary>.self })
    try put(switched, Store<Notes<MaskedAfterBinary>>(in: switched), 2...2, "new")
    try switched.endNow()
    let engine = try Engine.open(at: path)
    let catalog = try #require(engine.families.first { $0.name == "catalog" })
    let record = CollectionRecord(id: 1, coder: 1, isOwn: false, keyType: "int")
    try engine.delete(CatalogKey.coder(16), in: catalog)
    try engine.put(CatalogKey.collection("notes"), record.bytes, in: catalog)
    try engine.close()
    _ = try DatabaseReplacement(path: path, options: EngineOptions(), clock: .system).run(saves: true)
    let saved = try OpenDatabase.database(in: directory)
    try saved.define(CollectionDefinition("more", Note.self, key: Int.self, coder: .own(SecondCoder.self)))
    #expect(saved.core.catalog.collection("more")?.record.coder == 17)
    #expect(try saved.look { tx in try tx.object(Note.self, key: 1, in: "notes")?.text } == "old 1")
    #expect(errorCode { _ = try saved.look { tx in try tx.object(Note.self, key: 2, in: "notes") } } == .unknownCoder)
    try saved.endNow()
  }

  @Test func `an error that a coder throws is the cause of a database error, which names the row`() throws {
    let database = try Database.inMemory(
      definition: DatabaseDefinition {
        CollectionDefinition("notes", Note.self, key: Int.self, coder: .own(MaskedCoder.self))
        CollectionDefinition("numbers", Double.self, key: Int.self, coder: .own(MaskedCoder.self))
      })
    try database.change { tx throws in
      try tx.setBytes([1, 2, 3], metadata: MaskedCoder.encode(["m"]), key: 9, in: "notes")
    }
    do {
      _ = try database.look { tx in try tx.object(Note.self, key: 9, in: "notes") }
      Issue.record("bytes of no coder were read")
    } catch let error as DatabaseError {
      #expect(error.code == .decodingFailed && error.collection == "notes" && error.key == "9")
      #expect(error.cause as? UnmaskedBytes == UnmaskedBytes(first: 1))
    }
    let metadata = try database.look { tx in try tx.row(key: 9, in: "notes")?.metadata(as: [String].self) }
    #expect(metadata == ["m"])
    do {
      try database.change { tx in try tx.set(Double.nan, key: 1, in: "numbers") }
      Issue.record("JSON took a NaN")
    } catch let error as DatabaseError {
      #expect(error.code == .encodingFailed && error.key == "1" && error.cause is EncodingError)
    }
    #expect(try database.look { tx in try tx.count(in: "numbers") } == 0)
    try database.endNow()
  }

  @Test func `collections without a definition use the coder of the options`() throws {
    var options = DatabaseOptions()
    options.coder = .own(MaskedCoder.self)
    let database = try Database.inMemory(options: options)
    try database.change { tx in try tx.set(Note(id: 1, text: "a"), key: 1, in: "loose") }
    #expect(try database.look { tx in try tx.object(Note.self, key: 1, in: "loose") } == Note(id: 1, text: "a"))
    #expect(database.core.catalog.collection("loose")?.record.writer == 16)
    try database.endNow()
  }

  @Test func `invalid names, and two types of one name, are refused`() throws {
    struct Nameless: ObjectCoder {
      static let storedName = ""
      static func encode<Value: Encodable>(_ value: Value) throws -> [UInt8] { [] }
      static func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value { throw Stop() }
    }
    struct Ours: ObjectCoder {
      static let storedName = "binary"
      static func encode<Value: Encodable>(_ value: Value) throws -> [UInt8] { [] }
      static func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value { throw Stop() }
    }
    struct Long: ObjectCoder {
      static let storedName = String(repeating: "n", count: 256)
      static func encode<Value: Encodable>(_ value: Value) throws -> [UInt8] { [] }
      static func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value { throw Stop() }
    }
    struct SameName: ObjectCoder {
      static let storedName = MaskedCoder.storedName
      static func encode<Value: Encodable>(_ value: Value) throws -> [UInt8] { [] }
      static func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value { throw Stop() }
    }
    for coder: CoderKind in [.own(Nameless.self), .own(Ours.self), .own(Long.self)] {
      #expect(
        errorCode {
          try shared.open(DatabaseDefinition { CollectionDefinition("a", Note.self, key: Int.self, coder: coder) })
            .endNow()
        } == .invalidDefinition)
    }
    let twice = DatabaseDefinition {
      CollectionDefinition("a", Note.self, key: Int.self, coder: .own(MaskedCoder.self))
      CollectionDefinition("b", Note.self, key: Int.self, coder: .own(SameName.self))
    }
    #expect(errorCode { try shared.open(twice).endNow() } == .invalidDefinition)
    let database = try shared.open()
    #expect(database.core.catalog.collections.isEmpty)
    try database.endNow()
  }

  // MARK: - Successive coders

  @Test func `rows of the former and the present coder are read together, and both are in the indexes`() throws {
    try run(Binary.self) { database, notes throws in try put(database, notes, 1...6, "old") }
    for _ in 0..<2 {
      try run(MaskedAfterBinary.self) { database, notes throws in
        try put(database, notes, 5...8, "new")
        // The object's bytes must not change.
        try database.change { tx in try notes.setMetadata(["later"], of: 2, in: tx) }
        try database.look { tx throws in
          #expect(
            try Array(notes.load(..., in: tx)).map(\.text)
              == ["old 1", "old 2", "old 3", "old 4", "new 5", "new 6", "new 7", "new 8"])
          #expect(try notes.metadata(of: 4, in: tx) == ["old"] && notes.metadata(of: 2, in: tx) == ["later"])
          #expect(try notes.metadata(of: 6, in: tx) == ["new"])
          #expect(try Array(notes.load(.all, from: \.text, in: tx)).map(\.id) == [5, 6, 7, 8, 1, 2, 3, 4])
          #expect(try Array(notes.load(.value("old 3"), from: \.direct, in: tx)).map(\.id) == [3])
          #expect(try Array(notes.load(.value("new 7"), from: \.direct, in: tx)).map(\.id) == [7])
          #expect(try notes.indexDifferences(in: tx).isEmpty)
        }
        #expect(
          try marks(database) == [
            1: [nil], 2: [nil, 16], 3: [nil], 4: [nil, nil], 5: [16], 6: [16, 16], 7: [16], 8: [16, 16],
          ])
        #expect(database.core.catalog.collection("notes")?.record.bytes.prefix(8) == [2, 0, 0, 0, 1, 1, 0, 16])
      }
    }
  }

  @Test func `a migration rewrites rows of the former coder, and then the program may drop that coder`() throws {
    try run(Binary.self) { database, notes throws in try put(database, notes, 1...6, "old") }
    try run(MaskedAfterBinary.self) { database, notes throws in
      try put(database, notes, 5...6, "new")
      #expect(try migrate(notes) == 4)
      #expect(try migrate(notes) == 0)
      #expect(try marks(database).values.allSatisfy { $0.allSatisfy { $0 == 16 } })
      #expect(try database.look { tx in try notes.indexDifferences(in: tx) }.isEmpty)
    }
    try run(Masked.self) { database, notes throws in
      #expect(try database.look { tx in try Array(notes.load(..., in: tx)) }.count == 6)
      #expect(try database.look { tx in try notes.metadata(of: 4, in: tx) } == ["old"])
    }
    // A later start uses the first coder again.
    try run(BinaryAfterMasked.self) { database, notes throws in
      try put(database, notes, 7...8, "third")
      #expect(try marks(database)[8] == [nil, nil])
      #expect(try migrate(notes) == 6)
      #expect(database.core.catalog.collection("notes")?.record.bytes[0] == 1)
    }
    try run(Binary.self) { database, notes throws in
      #expect(
        try database.look { tx in try Array(notes.load(..., in: tx)) }.map(\.text)
          == ["old 1", "old 2", "old 3", "old 4", "new 5", "new 6", "third 7", "third 8"])
    }
  }

  @Test func `another coder that the definition does not name is refused, naming both`() throws {
    try run(Binary.self) { database, notes throws in try put(database, notes, 1...1, "old") }
    var error = openError(Masked.self)
    #expect(error?.code == .definitionDiffers && error?.collection == "notes")
    #expect(
      error?.message.hasPrefix("its coder is binary on disk and org.example.masked in the definition;") == true,
      "\(error as Any)")
    try run(MaskedAfterBinary.self) { database, notes throws in try put(database, notes, 2...2, "new") }
    error = openError(Binary.self)
    #expect(error?.code == .definitionDiffers)
    #expect(
      error?.message.hasPrefix("its coder is org.example.masked on disk and binary in the definition; add the type of")
        == true, "\(error as Any)")
    #expect(openError(SecondAlone.self)?.code == .definitionDiffers)
    try run(SecondAfterMasked.self) { database, notes throws in
      try put(database, notes, 3...3, "third")
      #expect(try marks(database) == [1: [nil], 2: [16, 16], 3: [17]])
      #expect(
        try database.look { tx in try Array(notes.load(..., in: tx)) }.map(\.text) == ["old 1", "new 2", "third 3"])
    }
  }

  @Test func `archives imported as raw bytes are read by the first version, and migrated into structures`()
    throws
  {
    struct Archived: StoreFormat {
      typealias Instance = Note
      static let collection = "notes"
      static let coder = CoderKind.binary
      static let formerCoders = [CoderKind.raw]
      static let currentVersion = Version.structure
      enum Version: Int, CaseIterable, Sendable { case archive = 1, structure }
      static func decode(_ stored: StoredValue, version: Version) throws -> Note {
        if version == .structure { return try stored.decode() }
        guard let id = stored.bytes.first else { throw Stop() }
        return Note(id: Int(id), text: String(decoding: stored.bytes.dropFirst(), as: UTF8.self))
      }
      let text = Index(\.text)
    }
    var options = DatabaseOptions()
    options.coder = .raw
    let importing = try Database.open(shared, path: "shared", options: options)
    try importing.change { tx throws in
      for id in 1...5 { try tx.setBytes([UInt8(id)] + Array("archive \(id)".utf8), key: id, in: "notes") }
    }
    try importing.endNow()
    let database = try shared.open(DatabaseDefinition { Archived.self })
    let notes = Store<Archived>(in: database)
    try warm(notes)
    try database.change { tx in _ = try notes.persist(Note(id: 6, text: "new"), in: tx) }
    for migrated in [5, 0] {
      try database.look { tx throws in
        #expect(try notes.load(2, in: tx) == Note(id: 2, text: "archive 2"))
        #expect(try notes.count(.value("archive 3"), from: \.text, in: tx) == 1)
        #expect(try notes.load(6, in: tx)?.text == "new")
        #expect(try notes.indexDifferences(in: tx).isEmpty)
      }
      #expect(try migrate(notes) == migrated)
    }
    try database.endNow()
  }

  // MARK: - Programs without the coder

  @Test func `a program without a coder opens its database, and the error of a row that needs it names the coder`()
    throws
  {
    try run(Masked.self) { database, notes throws in try put(database, notes, 1...2, "a") }
    let database = try shared.open()
    try database.change { tx in try tx.set("b", key: 1, in: "others") }
    func check(_ body: () throws -> Void) {
      do {
        try body()
        Issue.record("it was read")
      } catch let error as DatabaseError {
        #expect(error.code == .unknownCoder && error.collection == "notes")
        #expect(error.message.contains("\"org.example.masked\""), "\(error)")
      } catch { Issue.record(error) }
    }
    check { _ = try database.look { tx in try tx.object(Note.self, key: 1, in: "notes") } }
    check { _ = try database.look { tx in try tx.row(key: 2, in: "notes")?.metadata(as: [String].self) } }
    check { try database.change { tx in try tx.set(Note(id: 3, text: ""), key: 3, in: "notes") } }
    // Calls with bytes, keys, counts and removals need no coder.
    try database.change { tx throws in
      #expect(try tx.row(key: 1, in: "notes")?.objectBytes == MaskedCoder.encode(Note(id: 1, text: "a 1")))
      #expect(try tx.keys(Int.self, in: "notes") == [1, 2] && tx.count(in: "notes") == 2)
      try tx.remove(key: 2, in: "notes")
    }
    // A later definition names the coder, and makes it known for other collections too.
    try database.define(CollectionDefinition("more", Note.self, key: Int.self, coder: .own(MaskedCoder.self)))
    #expect(try database.look { tx in try tx.object(Note.self, key: 1, in: "notes") } == Note(id: 1, text: "a 1"))
    try database.endNow()
  }

  @Test func `rows of a coder that the format no longer names are refused, and others are read`() throws {
    try run(Masked.self) { database, notes throws in try put(database, notes, 1...1, "first") }
    try run(SecondAfterMasked.self) { database, notes throws in try put(database, notes, 2...2, "second") }
    try run(SecondAlone.self) { database, notes throws in
      #expect(try database.look { tx in try notes.load(2, in: tx)?.text } == "second 2")
      #expect(errorCode { _ = try database.look { tx in try notes.load(1, in: tx) } } == .unknownCoder)
      #expect(errorCode { _ = try migrate(notes) } == .unknownCoder)
    }
  }

  @Test func `a follower reads rows that the other program writes after a change of coder`() throws {
    let directory = try TemporaryDirectory()
    let writer = try OpenDatabase.database(in: directory, DatabaseDefinition { Notes<Binary>.self })
    try put(writer, Store<Notes<Binary>>(in: writer), 1...2, "old")
    var options = DatabaseOptions()
    options.follows = true
    let definition = DatabaseDefinition { Notes<MaskedAfterBinary>.self }
    let follower = try OpenDatabase.database(in: directory, definition, options: options)
    let notes = Store<Notes<MaskedAfterBinary>>(in: follower)
    #expect(try follower.look { tx in try notes.load(1, in: tx)?.text } == "old 1")
    try writer.endNow()
    let updated = try OpenDatabase.database(in: directory, definition)
    try put(updated, Store<Notes<MaskedAfterBinary>>(in: updated), 3...4, "new")
    try follower.look { tx throws in
      #expect(try Array(notes.load(..., in: tx)).map(\.text) == ["old 1", "old 2", "new 3", "new 4"])
      #expect(try notes.metadata(of: 4, in: tx) == ["new"])
    }
    try follower.endNow()
    try updated.endNow()
  }

  // MARK: - Damage

  @Test func `a row whose coder is not in the catalog is refused by number, and never read by another`() throws {
    let definition = DatabaseDefinition { CollectionDefinition("notes", Note.self, key: Int.self) }
    let database = try shared.open(definition)
    try database.change { tx in try tx.set(Note(id: 1, text: "a"), key: 1, in: "notes", metadata: ["m"]) }
    let info = try #require(database.core.catalog.collection("notes"))
    for (number, code) in [(UInt8(7), DatabaseError.Code.unsupportedVersion), (200, .unknownCoder)] {
      try database.change { tx throws in
        let row = try #require(try tx.row(key: 1, in: "notes"))
        var (header, offset) = try unsafe RowHeader.read(row.storedBytes.span.bytes)
        header.coder = number
        var bytes: [UInt8] = []
        header.append(to: &bytes)
        #expect(bytes[0] == 3 && bytes[1] == number)
        try tx.pending.put(row.storageKey, bytes + row.storedBytes[offset...], in: info.objects)
        var metadata: [UInt8] = []
        RowHeader.appendMetadata(coder: number, version: 0, shape: 0, to: &metadata)
        #expect(metadata == [0x80, 0, number, 0, 0])
        try tx.pending.put(row.storageKey, metadata + [1], in: info.metadata)
      }
      func check(_ body: () throws -> Void) {
        do { try body() } catch let error as DatabaseError {
          #expect(error.code == code && error.message.contains("number \(number)"), "\(error)")
        } catch { Issue.record(error) }
      }
      check { _ = try database.look { tx in try tx.object(Note.self, key: 1, in: "notes") } }
      check { _ = try database.look { tx in try tx.row(key: 1, in: "notes")?.metadata(as: [String].self) } }
      #expect(errorCode { _ = try database.look { tx in try tx.object(Note.self, key: 1, in: "notes") } } == code)
    }
    try database.endNow()
  }

  private func warm<Format: StoreFormat>(_ store: Store<Format>) throws { try store.warm() }
  private func migrate<Format: StoreFormat>(_ store: Store<Format>) throws -> Int { try store.migrate() }
}
