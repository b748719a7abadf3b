import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of when extensions receive a change, and of which state of the row they see.
struct DeliveryTests {
  private struct Taken: Error {}
  private let database: Database
  private let lines = Lines()
  init() throws { database = try Database.inMemory() }

  /// Returns an extension that records which row has a value, and refuses a second one: at once, or after the current
  /// change.
  private static func unique(_ delivery: ExtensionConfiguration.Delivery) -> Scripted {
    var unique = Scripted(delivery, events: [.inserts, .updates, .removals], needs: [.before, .oldRows])
    unique.configuration.scope = .only(["books"])
    unique.configuration.parts = [PartDefinition("values")]
    unique.will = { tx, change in
      guard let value = try change.row?.object(as: String.self) else { return }
      let holder = try tx.part("values").get(Array(value.utf8))
      if let holder, holder != change.key.bytes { throw Taken() }
    }
    unique.did = { tx, change in
      let values = try tx.part("values")
      if let old = try change.old?.object(as: String.self) { try values.delete(Array(old.utf8)) }
      if let new = try change.row?.object(as: String.self) { try values.put(Array(new.utf8), change.key.bytes) }
    }
    return unique
  }

  @Test(arguments: [ExtensionConfiguration.Delivery.immediate, .afterCurrent])
  func `uniqueness holds inside hooks with immediate delivery, and is checked too late otherwise`(
    delivery: ExtensionConfiguration.Delivery
  ) throws {
    let index = try database.registerReady(Self.unique(delivery), as: "unique")
    var hooks = Hooks(scope: .only(["orders"]))
    let refused = Lines()
    hooks.didModify = { tx, _ in
      try tx.set("same", key: 1, in: "books")
      do { try tx.set("same", key: 2, in: "books") } catch is Taken { refused.add("refused") }
    }
    try database.registerReady(hooks, as: "hooks")
    try database.change { tx in try tx.set("x", key: 1, in: "orders") }
    let (count, kept) = try database.look { tx in (try tx.count(in: "books"), try tx[index].texts("values").count) }
    #expect(kept == 1)
    switch delivery {
    case .immediate: #expect(count == 1 && refused.take() == ["refused"])
    // The second row is not refused here: immediate delivery exists for this case.
    case .afterCurrent: #expect(count == 2 && refused.take() == [])
    }
  }

  @Test func `an immediate extension has received a hook's write before the call returns`() throws {
    let index = try database.registerReady(Self.unique(.immediate), as: "unique")
    var hooks = Hooks(scope: .only(["orders"]))
    hooks.didModify = { [lines] tx, _ in
      try tx.set("a", key: 1, in: "books")
      lines.add("\(try tx[index].texts("values").count)")
      try tx.set("b", key: 1, in: "books")
      lines.add("\(try tx[index].part("values").get(Array("b".utf8)) != nil)")
      try tx.remove(key: 1, in: "books")
      lines.add("\(try tx[index].texts("values").count)")
    }
    try database.registerReady(hooks, as: "hooks")
    try database.change { tx in try tx.set("x", key: 1, in: "orders") }
    #expect(lines.take() == ["1", "true", "0"])
  }

  @Test func `an immediate extension that changes rows is refused, and its transaction is doomed`() throws {
    var writing = Scripted(.immediate)
    writing.did = { tx, _ in try tx.context.writeTransaction?.set("more", key: 2, in: "c") }
    try database.registerReady(writing, as: "writing")
    let codes = Lines()
    #expect(throws: DatabaseError.self) {
      try database.change { tx in
        codes.add("\(errorCode { try tx.set("x", key: 1, in: "c") }.map { "\($0)" } ?? "none")")
        codes.add("\(errorCode { try tx.set("y", key: 3, in: "d") }.map { "\($0)" } ?? "none")")
      }
    }
    #expect(codes.take() == ["invalidArgument", "doomed"])
    #expect(try database.look { tx in try tx.count() } == 0)
  }

  @Test func `a row and its former state are as of the change, whatever came later`() throws {
    var first = Scripted(events: .all)
    first.configuration.scope = .only(["c"])
    first.did = { tx, change in
      // Only the first change writes: the written row is received after it.
      guard change.event == .updated, try change.row?.object(as: String.self) == "b" else { return }
      try tx.context.writeTransaction?.set("later", key: 1, in: "c", metadata: 9)
    }
    var second = Scripted(events: .all, needs: .oldRows)
    second.did = { [lines] tx, change in
      let row = try change.row
      let old = try change.old
      let now: String? = try tx.context.transaction.object(key: 1, in: "c")
      let metadata = (try old?.metadata(as: Int.self), try row?.metadata(as: Int.self))
      lines.add(
        "\(change.event): \(try old?.object(as: String.self) ?? "-") \(metadata.0 ?? 0), "
          + "\(try row?.object(as: String.self) ?? "-") \(metadata.1 ?? 0), now \(now ?? "-")")
    }
    try database.registerReady(first, as: "first")
    try database.registerReady(second, as: "second")
    try database.change { tx in try tx.set("a", key: 1, in: "c", metadata: 1) }
    try database.change { tx in try tx.set("b", key: 1, in: "c", metadata: 2) }
    try database.change { tx in
      try tx.replaceObject("o", key: 1, in: "c")
      try tx.replaceMetadata(3, key: 1, in: "c")
      try tx.touchRow(key: 1, in: "c")
      try tx.remove(key: 1, in: "c")
    }
    #expect(
      lines.take() == [
        "inserted: - 0, a 1, now a",
        "updated: a 1, b 2, now later",
        "updated: b 2, later 9, now later",
        "objectReplaced: later 9, o 9, now o",
        "metadataReplaced: o 9, o 3, now o",
        "rowTouched: o 3, o 3, now o",
        "removed: o 3, - 0, now -",
      ])
  }

  @Test func `only an extension that needs old rows may read them`() throws {
    var reading = Scripted()
    reading.did = { [lines] _, change in
      do { _ = try change.old } catch let error as DatabaseError { lines.add("\(error.code)") }
    }
    try database.registerReady(reading, as: "reading")
    try database.change { tx in
      try tx.set("a", key: 1, in: "c")
      try tx.remove(key: 1, in: "c")
    }
    #expect(lines.take() == ["invalidArgument", "invalidArgument"])
  }

  @Test func `an extension receives the events that it names, from the collections of its scope`() throws {
    var some = Scripted(events: [.metadata, .removals])
    some.configuration.scope = .except(["other"])
    some.did = { [lines] _, change in lines.add("\(change.event) \(change.key) \(change.collectionNumber > 0)") }
    try database.registerReady(some, as: "some")
    try database.change { tx in
      for collection in ["c", "other"] {
        try tx.set("a", key: 1, in: collection)
        try tx.replaceMetadata(1, key: 1, in: collection)
        try tx.replaceObject("b", key: 1, in: collection)
        try tx.touchObject(key: 1, in: collection)
        try tx.remove(key: 1, in: collection)
      }
    }
    #expect(lines.take() == ["metadataReplaced c/1 true", "removed c/1 true"])
  }

  @Test func `removals are announced in batches of a thousand, and then received row by row`() throws {
    var asked = Scripted(events: .removals, needs: [.before, .oldRows])
    asked.will = { [lines] _, change in lines.add("will \(change.key.text)") }
    asked.did = { [lines] tx, change in
      let isThere = try tx.context.transaction.contains(change.key)
      lines.add("did \(change.key.text) \(isThere) \(try change.old?.object(as: Int.self) ?? -1)")
    }
    try database.change { tx in for key in 0..<2_500 { try tx.set(key, key: key, in: "c") } }
    try database.registerReady(asked, as: "asked")
    #expect(try database.change { tx in try tx.remove(keys: 0..<2_500, in: "c") } == 2_500)
    let expected = [0..<1_000, 1_000..<2_000, 2_000..<2_500].flatMap { batch in
      batch.map { "will \($0)" } + batch.map { "did \($0) false \($0)" }
    }
    #expect(lines.take() == expected)
  }

  @Test func `many keys are removed in order, each once`() throws {
    var announced = Scripted(events: .removals, needs: .oldRows)
    announced.did = { [lines] _, change in
      lines.add("\(change.key.text) \(try change.old?.object(as: Int.self) ?? -1)")
    }
    try database.registerReady(announced, as: "announced")
    try database.change { tx in for key in 0..<90 { try tx.set(key, key: key, in: "c") } }
    try database.change { tx in
      // Rows of this transaction, rows of earlier ones, and keys without a row.
      for key in 30..<60 { try tx.set(-key, key: key, in: "c") }
      #expect(try tx.remove(keys: [70, 3, 45, 3, 100, 45, 1], in: "c") == 4)
      #expect(lines.take() == ["1 1", "3 3", "45 -45", "70 70"])
      #expect(try tx.count(in: "c") == 86)
    }
  }

  @Test func `a transaction and its snapshot are released at its end, whatever its hooks have read`() throws {
    var reader = Scripted(needs: [.before, .oldRows])
    reader.will = { _, change in _ = (try change.row, try change.old, change.key) }
    reader.did = { _, change in _ = (try change.row, try change.old, change.key) }
    let handle = try database.registerReady(reader, as: "reader")
    weak var ended: WriteTransaction?
    for key in [1, 1, 2] {
      try database.change { tx in
        ended = tx
        try tx.set(key, key: key, in: "c")
        _ = try tx[handle]
      }
      #expect(ended == nil, "a change of row \(key)")
    }
    struct Undone: Error {}
    #expect(throws: Undone.self) {
      try database.change { tx in
        ended = tx
        try tx.remove(key: 1, in: "c")
        throw Undone()
      }
    }
    #expect(ended == nil, "a removal that is undone")
    try database.change { tx in
      ended = tx
      try tx.remove(key: 1, in: "c")
    }
    #expect(ended == nil, "a removal")
  }

  /// Adjacent rows are removed by ranges, which must not include rows that hooks have written between them since.
  @Test(arguments: [false, true])
  func `rows that a hook writes between removed ones stay`(isAll: Bool) throws {
    for number in [0, 700, 1_500, 2_499] {
      let database = try Database.inMemory()
      var writer = Scripted(events: .removals)
      let between = [201, 1_999, 2_001, 3_401, 4_999]
      writer.did = { tx, change in
        guard try change.key.key(as: Int.self) == number * 2 else { return }
        let rows = try #require(tx.context.writeTransaction)
        for key in between + [number * 2] { try rows.set(-1, key: key, in: "c", metadata: "m") }
      }
      try database.registerReady(writer, as: "writer")
      try database.change { tx in
        for key in 0..<2_500 {
          try tx.set(key, key: key * 2, in: "c")
          if key % 100 == 7 { try tx.replaceMetadata("m", key: key * 2, in: "c") }
        }
      }
      let removed = try database.change { tx in try isAll ? tx.removeAll(in: "c") : tx.remove(in: "c", 0...10_000) }
      #expect(removed == 2_500, "a hook at row \(number)")
      let (left, metadata) = try database.look { tx in
        let left = try tx.keys(Int.self, in: "c")
        return (left, try left.compactMap { try tx.metadata(String.self, key: $0, in: "c") }.count)
      }
      #expect(left == (between + [number * 2]).sorted() && metadata == left.count, "a hook at row \(number)")
      #expect(try database.look { tx in try tx.count(in: "c") } == left.count)
    }
  }

  @Test func `a removal of many rows that is refused in its last batch removes none`() throws {
    var asked = Scripted(events: .removals, needs: .before)
    asked.will = { _, change in if try change.key.key(as: Int.self) == 2_400 { throw Taken() } }
    try database.change { tx in for key in 0..<2_500 { try tx.set(key, key: key, in: "c") } }
    try database.registerReady(asked, as: "asked")
    try database.change { tx throws in
      #expect(throws: Taken.self) { try tx.remove(keys: 0..<2_500, in: "c") }
      #expect(throws: Taken.self) { try tx.removeAll(in: "c") }
      #expect(throws: Taken.self) { try tx.removeAll() }
      #expect(try tx.count(in: "c") == 2_500)
    }
    #expect(try database.look { tx in try tx.count(in: "c") } == 2_500)
  }

  @Test func `all rows are removed in one step for extensions that support it, and one by one for others`() throws {
    func scripted(_ name: String, whole: Bool) -> Scripted {
      var it = Scripted(events: .removals)
      it.did = { [lines] _, change in lines.add("\(name) \(change.key.text)") }
      it.removesAll = { [lines] _, collection in
        lines.add("\(name) all of \(collection ?? "everything")")
        return whole
      }
      return it
    }
    try database.registerReady(scripted("whole", whole: true), as: "whole")
    try database.registerReady(scripted("single", whole: false), as: "single")
    func fill() throws { try database.change { tx in for key in 1...2 { try tx.set(key, key: key, in: "c") } } }
    try fill()
    #expect(try database.change { tx in try tx.removeAll(in: "c") } == 2)
    #expect(lines.take() == ["whole all of c", "single all of c", "single 1", "single 2"])
    try fill()
    #expect(try database.change { tx in try tx.removeAll() } == 2)
    #expect(lines.take() == ["whole all of everything", "single all of everything", "single 1", "single 2"])
    try database.unregister("single")
    try fill()
    #expect(try database.change { tx in try tx.removeAll(in: "c") } == 2)
    #expect(lines.take() == ["whole all of c"])
  }

  @Test func `an extension whose rows are changed by the flush of a later one is flushed again`() throws {
    var first = Scripted(events: .inserts)
    first.configuration.parts = [PartDefinition("seen")]
    first.did = { tx, change in tx.notes.append(change.key.text) }
    first.flush = { tx in
      for note in tx.notes { try tx.part("seen").put(Array(note.utf8), [1]) }
      tx.notes = []
    }
    var second = Scripted(events: .inserts)
    second.configuration.scope = .only(["c"])
    second.did = { tx, _ in tx.notes = ["pending"] }
    second.flush = { tx in
      if tx.notes.isEmpty { return }
      tx.notes = []
      try tx.context.writeTransaction?.set("made", key: "made", in: "made")
    }
    let handle = try database.registerReady(first, as: "first")
    try database.registerReady(second, as: "second")
    try database.change { tx in try tx.set("x", key: "row", in: "c") }
    #expect(try database.look { tx in try tx[handle].texts("seen").map { String($0.prefix { $0 != "=" }) } }.count == 2)
  }

  @Test func `an undone savepoint restores an extension's properties only if the extension keeps state`() throws {
    struct Stop: Error {}
    for keepsState in [true, false] {
      let database = try Database.inMemory()
      var noting = Scripted(events: .inserts)
      noting.configuration.keepsState = keepsState
      noting.did = { tx, change in tx.notes.append(change.key.text) }
      noting.flush = { [lines] tx in
        lines.add(tx.notes.joined(separator: " "))
      }
      try database.registerReady(noting, as: "noting")
      try database.change { tx in
        try tx.set(1, key: 1, in: "c")
        try? tx.savepoint {
          try tx.set(2, key: 2, in: "c")
          throw Stop()
        }
        try tx.set(3, key: 3, in: "c")
      }
      #expect(lines.take().first == (keepsState ? "1 3" : "1 2 3"))
    }
  }

  @Test func `an extension first used in an undone savepoint is created again, and receives later changes`() throws {
    struct Stop: Error {}
    let database = try Database.inMemory()
    var noting = Scripted(events: .inserts)
    noting.did = { tx, change in tx.notes.append(change.key.text) }
    noting.flush = { [lines] tx in
      lines.add(tx.notes.joined(separator: " "))
    }
    try database.registerReady(noting, as: "noting")
    try database.change { tx in
      // Run twice, so that the second change finds the collection created.
      try? tx.savepoint {
        for key in 1...2 { try tx.set(key, key: key, in: "c") }
        throw Stop()
      }
      for key in 3...4 { try tx.set(key, key: key, in: "c") }
    }
    #expect(lines.take() == ["3 4"])
  }

  @Test func `dependents are notified of a change without rows, after the current change`() throws {
    var parent = Scripted(events: .inserts)
    parent.did = { [lines] tx, change in
      try tx.context.notifyDependents("of \(change.key.text)")
      lines.add("notified \(change.key.text)")
    }
    var child = Scripted(events: .inserts)
    child.configuration.dependencies = ["parent"]
    child.did = { [lines] _, change in lines.add("child \(change.key.text)") }
    child.dependencyDidChange = { [lines] tx, name, change in lines.add("child: \(name) \(change as? String ?? "?")") }
    try database.registerReady(parent, as: "parent")
    try database.registerReady(child, as: "child")
    try database.change { tx in try tx.set(1, key: 1, in: "c") }
    #expect(lines.take() == ["notified 1", "child 1", "child: parent of 1"])
  }

  @Test func `Hooks: the value returned before a change is passed to the closure after it`() throws {
    var hooks = Hooks(scope: .only(["c", "log"]))
    hooks.aroundRemoval(
      will: { _, change in try change.old?.object(as: String.self) ?? "-" },
      did: { [lines] _, change, kept in lines.add("\(change.key) was \(kept)") })
    hooks.aroundModify(
      will: { tx, change in try tx.object(String.self, key: 1, in: change.collection) },
      did: { [lines] _, change, kept in lines.add("\(change.key) over \(kept ?? "nothing")") })
    try database.registerReady(hooks, as: "hooks")
    try database.change { tx in
      try tx.set("a", key: 1, in: "c")
      try tx.set("b", key: 1, in: "c")
      try tx.set("z", key: 2, in: "c")
      _ = try tx.remove(keys: [1, 2], in: "c")
    }
    #expect(lines.take() == ["c/1 over nothing", "c/1 over a", "c/2 over b", "c/1 was b", "c/2 was z"])
  }

  @Test func `a contradictory configuration is refused before anything is written`() throws {
    func code(_ change: (inout ExtensionConfiguration) -> Void) -> DatabaseError.Code? {
      var scripted = Scripted(.immediate)
      change(&scripted.configuration)
      return errorCode { try database.registerReady(scripted, as: "refused") }
    }
    try database.registerReady(Scripted(), as: "delayed")
    #expect(code { $0.parts = [PartDefinition("a"), PartDefinition("a", .counters(.sum))] } == .invalidDefinition)
    #expect(code { $0.parts = (0...64).map { PartDefinition("\($0)") } } == .invalidDefinition)
    #expect(code { $0.parts = [PartDefinition("")] } == .invalidDefinition)
    #expect(code { $0.dependencies = ["delayed"] } == .invalidDefinition)
    #expect(code { $0.dependencies = ["refused"] } == .invalidDefinition)
    #expect(
      code {
        $0.catchesUp = true
        $0.parts = [PartDefinition("a")]
        $0.parts[0].isVolatile = true
      } == .invalidDefinition)
    #expect(database.registeredExtensions == ["delayed"] && database.knownExtensions == [])
    #expect(code { $0.parts = (0..<64).map { PartDefinition("\($0)") } } == nil)
  }
}
