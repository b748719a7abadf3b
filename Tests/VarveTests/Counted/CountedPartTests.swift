import EngineTestSupport
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@_spi(Extensions) @testable import Varve

/// Tests of counted parts: order statistics in reads, writes, savepoints, held snapshots and followers.
struct CountedPartTests {
  static func counted(_ name: String = "p", isCounted: Bool = true) -> PartDefinition {
    var part = PartDefinition(name)
    part.isCounted = isCounted
    return part
  }

  static func scripted(isCounted: Bool = true) -> Scripted {
    var scripted = Scripted(events: [])
    scripted.configuration.parts = [counted(isCounted: isCounted), PartDefinition("plain")]
    return scripted
  }

  static func key(_ number: Int) -> [UInt8] { [UInt8(number >> 8), UInt8(number & 255)] }

  static func open(_ kind: StorageKind) throws -> (StorageSite, Database, ExtensionHandle<Scripted>) {
    let site = try StorageSite(kind)
    let database = try Database.open(try site.open(), path: "counted")
    return (site, database, try database.registerReady(scripted(), as: "counted"))
  }

  @Test(arguments: StorageKind.allCases)
  func `offsets, entries and counts are those of the entries in order`(kind: StorageKind) throws {
    let (site, database, handle) = try Self.open(kind)
    try database.change { tx in
      let part = try tx[handle].part("p")
      for number in 0..<1_000 { try part.insert(Self.key((number * 7) % 1_000 * 2), [UInt8(number & 255)]) }
      // The transaction sees its own entries.
      #expect(try part.count() == 1_000)
      #expect(try part.entry(at: 500)?.key == Self.key(1_000))
    }
    try database.look { tx in
      let part = try tx[handle].part("p")
      #expect(try part.count() == 1_000)
      #expect(try part.offset(of: Self.key(1_001)) == 501 && part.offset(of: Self.key(1_000)) == 500)
      let range = StorageRange(lower: Self.key(200), upper: Self.key(401))
      #expect(try part.count(range) == 101)
      #expect(try part.offset(of: Self.key(210), in: range) == 5)
      #expect(try part.offset(of: Self.key(0), in: range) == 0 && part.offset(of: Self.key(999), in: range) == 101)
      #expect(try part.entry(at: 3, in: range)?.key == Self.key(206))
      #expect(try part.entry(at: 3, in: range, isReverse: true)?.key == Self.key(394))
      for offset in [-1, 101, .max, .min] {
        #expect(try part.entry(at: offset, in: range) == nil)
        #expect(try part.entry(at: offset, in: range, isReverse: true) == nil)
      }
      var cursor = try part.cursor(from: 99, in: range)
      #expect(try cursor.next()?.key == Self.key(398))
      #expect(try cursor.next()?.key == Self.key(400))
      #expect(try cursor.next() == nil)
      cursor = try part.cursor(from: 100, in: range, isReverse: true)
      #expect(try cursor.next()?.key == Self.key(200))
      #expect(try cursor.next() == nil)
      cursor = try part.cursor(from: 101, in: range)
      #expect(try cursor.next() == nil)
      try part.requireRightCounts()
    }
    try database.close()
    withExtendedLifetime(site) {}
  }

  @Test(arguments: StorageKind.allCases)
  func `what a savepoint undoes is not counted`(kind: StorageKind) throws {
    struct Undone: Error {}
    let (site, database, handle) = try Self.open(kind)
    try database.change { tx in
      let part = try tx[handle].part("p")
      for number in 0..<300 { try part.insert(Self.key(number), []) }
      try? tx.savepoint {
        for number in 300..<900 { try part.insert(Self.key(number), []) }
        try part.deleteRange(StorageRange(lower: Self.key(10), upper: Self.key(200)))
        #expect(try part.count() == 710)
        throw Undone()
      }
      #expect(try part.count() == 300)
      try part.remove(Self.key(5))
      #expect(try part.offset(of: Self.key(100)) == 99)
    }
    try database.look { tx in try tx[handle].part("p").requireRightCounts() }
    try database.close()
    withExtendedLifetime(site) {}
  }

  @Test(arguments: StorageKind.allCases)
  func `a range that is removed is no longer counted, wherever its ends are`(kind: StorageKind) throws {
    let (site, database, handle) = try Self.open(kind)
    for (lower, upper) in [(100, 110), (0, 400), (3_000, nil), (700, 2_500), (0, nil)] as [(Int, Int?)] {
      try database.change { tx in
        let part = try tx[handle].part("p")
        for number in 0..<4_000 where try part.get(Self.key(number)) == nil { try part.insert(Self.key(number), []) }
      }
      try database.change { tx in
        let part = try tx[handle].part("p")
        try part.deleteRange(StorageRange(lower: Self.key(lower), upper: upper.map { Self.key($0) }))
        #expect(try part.count() == 4_000 - ((upper ?? 4_000) - lower))
        // An entry within the range, and one beside it.
        if upper != nil { try part.insert(Self.key(lower + 3), []) }
      }
      try database.look { tx in try tx[handle].part("p").requireRightCounts() }
    }
    try database.close()
    withExtendedLifetime(site) {}
  }

  @Test(arguments: StorageKind.allCases)
  func `runs are divided and joined, so that each has 32 to 128 entries`(kind: StorageKind) throws {
    let (site, database, handle) = try Self.open(kind)
    var random = SeededRandom(seed: 3)
    for round in 0..<60 {
      try database.change { tx in
        let part = try tx[handle].part("p")
        for _ in 0..<200 {
          let key = Self.key(random.below(4_000))
          let isThere = try part.get(key) != nil
          if isThere, round >= 30 { try part.remove(key) }
          if !isThere, round < 30 { try part.insert(key, []) }
        }
      }
    }
    try database.look { tx in
      let part = try tx[handle].part("p")
      try part.requireRightCounts()
      let runs = try #require(tx.database.backend.families().first { $0.name.hasSuffix("p.runs") })
      var cursor = FamilyCursor(StorageRange(), in: runs, of: tx.snapshot, isReverse: false)
      var counts: [Int] = []
      while let (key, value) = try cursor.next() {
        counts.append(try #require(unsafe RunFormat.piece(key.span.bytes, value.span.bytes)).count)
      }
      #expect(counts.count > 3 && counts.allSatisfy { RunFormat.sizes.contains($0) }, "\(counts)")
    }
    try database.close()
    withExtendedLifetime(site) {}
  }

  @Test(arguments: StorageKind.allCases)
  func `a reader at an earlier commit has the counts of that commit`(kind: StorageKind) throws {
    let (site, database, handle) = try Self.open(kind)
    var held: [(connection: Connection, count: Int)] = []
    // More commits than trees are kept.
    for step in 0..<(RunTreeCache.versionCount + 40) {
      try database.change { tx in
        let part = try tx[handle].part("p")
        for number in 0..<5 { try part.insert(Self.key(step * 5 + number), []) }
        if step > 0, step % 3 == 0 { try part.remove(Self.key(step * 5 - 2)) }
      }
      let connection = database.connection()
      try connection.beginLongLivedRead()
      held.append((connection, try connection.read { tx in try tx[handle].part("p").cursor().count() }))
    }
    for (connection, count) in held {
      try connection.read { tx in
        let part = try tx[handle].part("p")
        #expect(try part.count() == count)
        try part.requireRightCounts()
      }
    }
    try database.close()
    withExtendedLifetime(site) {}
  }

  @Test(arguments: StorageKind.allCases)
  func `the same definition can be put in force in the transaction that writes a part for the first time`(
    kind: StorageKind
  ) throws {
    let (site, database, handle) = try Self.open(kind)
    for round in 0..<3 {
      try database.change { tx in
        try tx[handle].part("p").insert(Self.key(round), [])
        try tx.replaceDefinition(of: handle, by: Self.scripted())
        try tx[handle].part("plain").put(Self.key(round), [])
        try tx.replaceDefinition(of: handle, by: Self.scripted())
      }
      try database.change { tx in
        try tx[handle].part("p").insert(Self.key(100 + round), [])
        try tx[handle].part("plain").put(Self.key(100 + round), [])
      }
    }
    try database.look { tx in
      #expect(try tx[handle].part("p").count() == 6 && tx[handle].part("plain").count() == 6)
      try tx[handle].part("p").requireRightCounts()
    }
    try database.close()
    withExtendedLifetime(site) {}
  }

  @Test func `a tree is kept until new readers see a later one`() {
    let cache = RunTreeCache(isExact: false)
    let family = StorageFamily(name: "p", number: 7)
    func tree(_ count: Int) -> RunTree { RunTree([RunTree.Piece(separator: [], count: count)]) }
    func version(_ number: Int) -> CommitVersion { CommitVersion(UInt64(number)) }
    // The first 200 commits stay in flight: new readers see version 3.
    for number in 1...200 { cache.note(tree(number), of: family, at: version(number), visible: version(3)) }
    for number in [3, 4, 100, 200] { #expect(cache.tree(of: family, at: version(number))?.total == number) }
    #expect(cache.tree(of: family, at: version(2)) == nil)
    // Once they see all of them, only some are kept.
    cache.note(tree(201), of: family, at: version(201), visible: version(200))
    #expect(cache.tree(of: family, at: version(201 - RunTreeCache.versionCount)) == nil)
    #expect(cache.tree(of: family, at: version(202 - RunTreeCache.versionCount)) != nil)
    // What a reader of an earlier version has read is not mistaken for that of the versions in between.
    cache.add(tree(5), of: family, at: version(5))
    #expect(cache.tree(of: family, at: version(6)) == nil)
    // However many commits are in flight, there is a bound.
    for number in 202...6_000 { cache.note(tree(number), of: family, at: version(number), visible: version(3)) }
    #expect(cache.tree(of: family, at: version(1_000)) == nil && cache.tree(of: family, at: version(5_000)) != nil)
  }

  @Test(arguments: StorageKind.allCases)
  func `counts are there after the next open, and in a program that follows`(kind: StorageKind) throws {
    let site = try StorageSite(kind)
    var database = try Database.open(try site.open(), path: "counted")
    var options = DatabaseOptions()
    options.follows = true
    let follower = try Database.open(try site.follow(), path: "follower", options: options)
    var handle = try database.registerReady(Self.scripted(), as: "counted")
    try database.change { tx in
      for number in 0..<700 { try tx[handle].part("p").insert(Self.key(number), []) }
    }
    let followed = try follower.registerReady(Self.scripted(), as: "counted")
    try follower.core.read { tx in try tx[followed].part("p").requireRightCounts() }
    try database.change { tx in try tx[handle].part("p").remove(Self.key(9)) }
    let offset = try follower.core.read { tx in try tx[followed].part("p").offset(of: Self.key(100)) }
    #expect(offset == 99)
    try follower.close()
    try database.close()
    database = try Database.open(try site.open(), path: "counted")
    handle = try database.registerReady(Self.scripted(), as: "counted")
    try database.look { tx in
      #expect(try tx[handle].part("p").count() == 699)
      try tx[handle].part("p").requireRightCounts()
    }
    try database.close()
    withExtendedLifetime(site) {}
  }

  @Test(arguments: StorageKind.allCases)
  func `counts that are turned on are made at the registration, and no row is passed again`(kind: StorageKind) throws {
    let site = try StorageSite(kind)
    let lines = Lines()
    func mirror(isCounted: Bool) -> Scripted {
      var mirror = Scripted(events: [.inserts])
      mirror.configuration.build = .background
      mirror.configuration.parts = [Self.counted(isCounted: isCounted), PartDefinition("plain")]
      mirror.did = { tx, change in
        lines.add("\(change.key.text)")
        let part = try tx.part("p")
        isCounted ? try part.insert(change.key.bytes, []) : try part.put(change.key.bytes, [])
      }
      return mirror
    }
    for (round, isCounted) in [false, true, true, false, true].enumerated() {
      let database = try Database.open(try site.open(), path: "counted")
      let handle = try database.registerReady(mirror(isCounted: isCounted), as: "mirror")
      #expect(lines.take() == [])
      if isCounted {
        try database.look { tx in
          #expect(try tx[handle].part("p").count() == round * 150)
          try tx[handle].part("p").requireRightCounts()
        }
      }
      try database.change { tx in for key in 0..<150 { try tx.set(key, key: round * 1_000 + key, in: "c") } }
      #expect(lines.take().count == 150)
      let families = try database.core.backend.families().filter { $0.name.hasSuffix("p.runs") }
      #expect(families.count == (isCounted ? 1 : 0))
      if isCounted { try database.look { tx in try tx[handle].part("p").requireRightCounts() } }
      try database.close()
    }
    withExtendedLifetime(site) {}
  }

  @Test func `calls that would not be counted are refused`() throws {
    let (site, database, handle) = try Self.open(.memory)
    try database.change { tx in
      let (part, plain) = (try tx[handle].part("p"), try tx[handle].part("plain"))
      try part.insert([1], [])
      #expect(errorCode { try part.delete([1]) } == .invalidArgument)
      #expect(errorCode { try part.blindPut([1], []) } == .invalidArgument)
      #expect(errorCode { try part.blindDelete([1]) } == .invalidArgument)
      #expect(errorCode { try part.putStamped([1] + StampPosition.pending, [], at: .key(1)) } == .invalidArgument)
      #expect(errorCode { try plain.insert([1], []) } == .invalidArgument)
      #expect(errorCode { try plain.remove([1]) } == .invalidArgument)
      #expect(errorCode { _ = try plain.offset(of: [1]) } == .invalidArgument)
      #expect(errorCode { _ = try plain.entry(at: 0) } == .invalidArgument)
      #expect(errorCode { _ = try plain.cursor(from: 0) } == .invalidArgument)
      // A value can be replaced.
      try part.put([1], [7])
      #expect(try part.count() == 1 && part.entry(at: 0)?.value == [7])
    }
    for form in [PartDefinition.Form.writeOnce, .appendOnly, .scratch, .counters(.sum)] {
      var scripted = Scripted(events: [])
      var part = PartDefinition("p", form)
      part.isCounted = true
      scripted.configuration.parts = [part]
      #expect(errorCode { try database.registerReady(scripted, as: "wrong") } == .invalidDefinition)
    }
    var scripted = Scripted(events: [])
    scripted.configuration.parts = [Self.counted(), PartDefinition("p.runs")]
    #expect(errorCode { try database.registerReady(scripted, as: "wrong") } == .invalidDefinition)
    try database.close()
    withExtendedLifetime(site) {}
  }

  @Test func `an order statistic is a read of its range for observers`() async throws {
    let (site, database, handle) = try Self.open(.memory)
    func insert(_ numbers: [Int]) throws {
      try database.core.write(WriteTerms()) { tx in
        for number in numbers { try tx[handle].part("p").insert(Self.key(number), []) }
      }
    }
    try insert((0..<10).map { $0 * 2 })
    let range = StorageRange(lower: Self.key(4), upper: Self.key(12))
    let observed = ReadObservation<Int>(database.core, isSame: { _, _ in false }) { tx in
      try tx[handle].part("p").count(range)
    }
    var values = observed.makeAsyncIterator()
    #expect(try await values.next() == 4)
    // A commit outside of the range does not wake the observer; one inside does.
    try insert([13])
    try insert([5])
    #expect(try await values.next() == 5)
    try await database.close()
    withExtendedLifetime(site) {}
  }

  @Test(arguments: StorageKind.allCases)
  func `a count that is wrong on disk is made right by the run's next change, and read as damage`(
    kind: StorageKind
  ) throws {
    let (site, database, handle) = try Self.open(kind)
    try database.change { tx in for number in 0..<60 { try tx[handle].part("p").insert(Self.key(number), []) } }
    let runs = try #require(try database.core.backend.families().first { $0.name.hasSuffix("p.runs") })
    let family = try #require(try database.core.backend.families().first { $0.name.hasSuffix(".p") })
    func set(_ value: [UInt8]) throws {
      try database.core.write(WriteTerms()) { tx in
        try tx.pending.put(RunFormat.key([]), value, in: runs)
        tx.onApplied { database.core.runTrees.note(nil, of: family, at: $0, visible: $0) }
      }
    }
    try set(RunFormat.value(3))
    try database.change { tx in
      let part = try tx[handle].part("p")
      for number in 0..<5 { try part.remove(Self.key(number)) }
      #expect(try part.count() == 55)
    }
    try database.look { tx in try tx[handle].part("p").requireRightCounts() }
    try set(RunFormat.value(90))
    try database.look { tx in
      #expect(errorCode { _ = try tx[handle].part("p").entry(at: 80) } == .corruption)
    }
    try set([0xFF])
    try database.look { tx in #expect(errorCode { _ = try tx[handle].part("p").count() } == .corruption) }
    try database.close()
    withExtendedLifetime(site) {}
  }
}
