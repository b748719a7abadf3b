import EngineTestSupport
import Testing
import VarveEngine
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of each form of a part against a dictionary, with random savepoints, commits and reopenings, on three
/// backends.
struct PartFormTests {
  private struct Stop: Error {}
  private typealias Model = [[UInt8]: [UInt8]]

  private static let forms: [PartDefinition] = [
    PartDefinition("values"), PartDefinition("sums", .counters(.sum)), PartDefinition("maxima", .counters(.maximum)),
    PartDefinition("once", .writeOnce), PartDefinition("log", .appendOnly), PartDefinition("scratch", .scratch),
  ]

  private static func scripted(_ parts: [PartDefinition] = forms) -> Scripted {
    var scripted = Scripted(events: [])
    scripted.configuration.parts = parts
    return scripted
  }

  private static func content(_ part: Part) throws -> Model {
    var content: Model = [:]
    var cursor = try part.cursor()
    try cursor.forEach { content[$0] = $1 }
    return content
  }

  private static func rule(_ form: String) -> CounterRule { form == "sums" ? .sum : .maximum }

  /// Makes one change to a part and its model, and returns its description.
  private static func step(_ form: String, _ part: Part, _ model: inout Model, _ random: inout SeededRandom) throws
    -> String
  {
    let key = [UInt8(random.below(12)), UInt8(random.below(2))]
    let value = [UInt8](repeating: UInt8(random.below(256)), count: random.below(12))
    switch random.below(8) {
    case 0:
      try part.delete(key)
      model[key] = nil
      return "delete"
    case 1 where random.oneIn(3):
      let range = StorageRange(lower: key, upper: random.oneIn(3) ? nil : [key[0] &+ 3])
      try part.deleteRange(range)
      model = model.filter { entry in
        entry.key.lexicographicallyPrecedes(key)
          || !(range.upper.map { entry.key.lexicographicallyPrecedes($0) } ?? true)
      }
      return "deleteRange"
    default:
      if form == "sums" || form == "maxima" {
        let number = Int64(random.below(2_000)) - 1_000
        try part.add(number, to: key)
        let rule = rule(form)
        model[key] = rule.bytes(rule.taking(number, into: model[key].flatMap(rule.number)))
        return "add"
      }
      // A second put would be an error in this form.
      if form == "once", model[key] != nil { try part.delete(key) }
      try part.put(key, value)
      model[key] = value
      return "put"
    }
  }

  @Test(arguments: StorageKind.allCases, forms.map(\.name))
  func `a part of each form equals a dictionary, through savepoints, commits and reopenings`(
    kind: StorageKind, form: String
  ) throws {
    let seed = UInt64.random(in: .min ... .max)
    var random = seededRandom("forms \(form)", seed)
    let site = try StorageSite(kind)
    var database = try Database.open(try site.open(), path: "forms")
    var handle = try database.registerReady(Self.scripted(), as: "scripted")
    var committed: Model = [:]
    var kinds: [String: Int] = [:]
    for round in 0..<TestScale.atMost(40) {
      // A scratch part is empty at the start of each transaction.
      var model = form == "scratch" ? [:] : committed
      try? database.change { tx throws in
        let part = try tx[handle].part(form)
        for _ in 0..<20 {
          let before = model
          let isUndone = random.oneIn(4)
          try? tx.savepoint {
            for _ in 0..<(1 + random.below(4)) {
              kinds[try Self.step(form, part, &model, &random), default: 0] += 1
            }
            if isUndone { throw Stop() }
          }
          if isUndone { model = before }
          // Whether or not the savepoint was undone, entries that were appended before it still cause a refusal.
          if form != "log" { #expect(try Self.content(part) == model, "seed \(seed), round \(round)") }
        }
        if random.oneIn(5) { throw Stop() }
        committed = form == "scratch" ? [:] : model
      }
      try database.look { tx throws in
        #expect(try Self.content(try tx[handle].part(form)) == committed, "seed \(seed), round \(round)")
      }
      if random.oneIn(8) {
        try database.endNow()
        database = try Database.open(try site.open(), path: "forms")
        handle = try database.registerReady(Self.scripted(), as: "scripted")
      }
    }
    if TestScale.isWhole {
      #expect(kinds.count == 3 && kinds.values.allSatisfy { $0 > 20 }, "seed \(seed): \(kinds)")
    }
    try database.endNow()
  }

  @Test(arguments: StorageKind.allCases)
  func `a part that is appended to is not readable in that transaction, unless the append is undone`(
    kind: StorageKind
  ) throws {
    let site = try StorageSite(kind)
    let database = try Database.open(try site.open(), path: "log")
    let handle = try database.registerReady(Self.scripted(), as: "scripted")
    try database.change { tx throws in
      let log = try tx[handle].part("log")
      #expect(try log.get([1]) == nil)
      try? tx.savepoint {
        try log.put([1], [0])
        #expect(errorCode { _ = try log.get([1]) } == .invalidArgument)
        throw Stop()
      }
      #expect(try log.get([1]) == nil)
      try log.put([1], [1])
      try? tx.savepoint {
        try log.put([1], [2])
        throw Stop()
      }
      #expect(errorCode { _ = try log.first() } == .invalidArgument)
      #expect(errorCode { _ = try log.cursor() } == .invalidArgument)
      #expect(errorCode { _ = try log.count() } == .invalidArgument)
      #expect(errorCode { _ = try log.values([[1]]) } == .invalidArgument)
    }
    #expect(try database.look { try Self.content(try $0[handle].part("log")) } == [[1]: [1]])
    try database.endNow()
  }

  @Test(arguments: StorageKind.allCases, ["values", "once", "log"])
  func `a stamp reads as 0xFF until the commit, and as the commit's number after it`(
    kind: StorageKind, form: String
  ) throws {
    let site = try StorageSite(kind)
    let database = try Database.open(try site.open(), path: "stamps")
    let handle = try database.registerReady(Self.scripted(), as: "scripted")
    let zeros = [UInt8](repeating: 0, count: 8)
    let stamp = Varve.StampPosition.pending
    try database.change { tx throws in
      let part = try tx[handle].part(form)
      #expect(errorCode { try part.putStamped([1, 2], zeros, at: .key(0)) } == .invalidArgument)
      #expect(errorCode { try part.putStamped(zeros, zeros, at: .value(1)) } == .invalidArgument)
      #expect(errorCode { try part.putStamped(zeros, zeros, at: .key(-1)) } == .invalidArgument)
      try part.put([1, 5], [])
      for last in [UInt8(3), 2, 4] { try part.putStamped([1] + zeros + [last], [last], at: .key(1)) }
      try part.putStamped([2], [7] + zeros + [8], at: .value(1))
      try? tx.savepoint {
        try part.putStamped([1] + zeros + [1], [], at: .key(1))
        throw Stop()
      }
      try part.delete([1] + stamp + [4])
      if form == "log" { return }
      #expect(try part.get([1] + stamp + [2]) == [2])
      var cursor = try part.cursor()
      var keys: [[UInt8]] = []
      try cursor.forEach { key, _ in keys.append(key) }
      #expect(keys == [[1, 5], [1] + stamp + [2], [1] + stamp + [3], [2]])
      #expect(try part.get([2]) == [7] + stamp + [8])
    }
    let (version, content) = try database.look { tx in (tx.version, try Self.content(try tx[handle].part(form))) }
    let number = BigEndian.bytes(version.number)
    var expected: Model = [[1, 5]: [], [1] + number + [2]: [2], [1] + number + [3]: [3], [2]: [7] + number + [8]]
    // The pending bytes do not identify an appended entry: only the put itself does.
    if form == "log" { expected[[1] + number + [4]] = [4] }
    #expect(content == expected)
    try database.endNow()
  }

  @Test(arguments: StorageKind.allCases)
  func `a put and a removal of a write-once key in one transaction leave nothing to commit`(kind: StorageKind) throws {
    let site = try StorageSite(kind)
    let database = try Database.open(try site.open(), path: "once")
    let handle = try database.registerReady(Self.scripted(), as: "scripted")
    let before = try database.look { $0.version }
    try database.change { tx throws in
      let once = try tx[handle].part("once")
      for number in 0..<100 {
        try once.put([UInt8(number)], [1])
        try once.delete([UInt8(number)])
      }
      let scratch = try tx[handle].part("scratch")
      try scratch.put([1], [1])
      #expect(tx.isUnchanged)
    }
    #expect(try database.look { $0.version } == before)
    try database.endNow()
  }

  @Test func `a second put of a write-once key traps in debug builds, and otherwise the later one wins`() async throws {
    var isChecked = false
    assert(
      {
        isChecked = true
        return true
      }())
    if isChecked {
      await #expect(processExitsWith: .failure) {
        let database = try Database.inMemory()
        let handle = try database.registerReady(Self.scripted(), as: "scripted")
        try database.change { try $0[handle].part("once").put([1], [1]) }
        try database.change { try $0[handle].part("once").put([1], [2]) }
      }
      return
    }
    let database = try await Database.inMemory()
    let handle = try database.registerReady(Self.scripted(), as: "scripted")
    for value in [UInt8(1), 2, 3] {
      try database.change { tx throws in
        let once = try tx[handle].part("once")
        try once.put([1], [value])
        try once.put([1], [value + 10])
        #expect(try once.get([1]) == [value + 10])
      }
    }
    try database.change { try $0[handle].part("once").delete([1]) }
    #expect(try database.look { try $0[handle].part("once").get([1]) } == nil)
  }

  @Test(arguments: StorageKind.allCases)
  func `a part of another form is rebuilt, and a scratch part is never built`(kind: StorageKind) throws {
    let site = try StorageSite(kind)
    var database = try Database.open(try site.open(), path: "change")
    try database.change { tx in for key in 1...5 { try tx.set(key, key: key, in: "c") } }
    func mirror(_ form: PartDefinition.Form, isOld: Bool) -> Scripted {
      var mirror = Scripted(events: .inserts)
      mirror.configuration.build = .background
      mirror.configuration.parts = [
        isOld ? PartDefinition("rest") : PartDefinition("rest", .appendOnly), PartDefinition("part", form),
      ]
      mirror.did = { tx, change in
        if let part = tx.parts["part"] {
          if case .counters = form { try part.add(1, to: change.key.bytes) } else { try part.put(change.key.bytes, []) }
        }
        try tx.part("rest").put(change.key.bytes, [isOld ? 1 : 2])
      }
      return mirror
    }
    func counts(_ handle: ExtensionHandle<Scripted>) throws -> [Int] {
      try database.look { tx in try ["rest", "part"].map { try tx[handle].part($0).count() } }
    }
    var handle = try database.registerReady(mirror(.values, isOld: true), as: "mirror")
    #expect(try counts(handle) == [5, 5])
    for (form, expected) in [
      (PartDefinition.Form.scratch, 0), (.writeOnce, 5), (.counters(.maximum), 5), (.counters(.sum), 5),
      (.appendOnly, 5), (.scratch, 0), (.values, 5),
    ] {
      try database.endNow()
      database = try Database.open(try site.open(), path: "change")
      handle = try database.registerReady(mirror(form, isOld: false), as: "mirror")
      #expect(try counts(handle) == [5, expected], "\(form)")
      #expect(try database.look { try $0[handle].part("rest").cursor().count() } == 5)
    }
    try database.endNow()
  }

  @Test func `scratch parts and appended entries count towards the limit of a transaction`() throws {
    let site = try StorageSite(.toy)
    let database = try Database.open(try site.open(), path: "limit")
    let handle = try database.registerReady(Self.scripted(), as: "scripted")
    for form in ["scratch", "log"] {
      try? database.change { tx throws in
        let part = try tx[handle].part(form)
        let value = [UInt8](repeating: 1, count: 10 << 10)
        let code = errorCode { for number in 0..<200 { try part.put([UInt8(number)], value) } }
        #expect(code == .batchTooLarge, "\(form)")
        throw Stop()
      }
    }
    try database.endNow()
  }

  @Test func `the memtable size is passed to the storage, and changes when registered again, without a build`() throws {
    let site = try StorageSite(.disk)
    var sizes: [Int?] = []
    for size in [64 << 10, 1 << 20, nil, 1 << 30] as [Int?] {
      let backend = try site.open()
      let database = try Database.open(backend, path: "sizes")
      var part = PartDefinition("p")
      part.memtableSize = size
      let handle = try database.registerReady(Self.scripted([part]), as: "scripted")
      if sizes.isEmpty { try database.change { try $0[handle].part("p").put([1], [1]) } }
      #expect(try database.look { try $0[handle].part("p").get([1]) } == [1])
      let engine = try #require(backend as? EngineBackend).engine
      let family = try #require(engine.families.first { $0.name.hasSuffix(".p") })
      sizes.append(family.options.memtableSize)
      try database.endNow()
    }
    #expect(sizes == [64 << 10, 1 << 20, nil, 1 << 30])
  }

  @Test func `contradictory options are refused before anything is written`() throws {
    let database = try Database.inMemory()
    var small = PartDefinition("p")
    small.memtableSize = (64 << 10) - 1
    var volatile = PartDefinition("p", .scratch)
    volatile.isVolatile = true
    for part in [small, volatile] {
      #expect(errorCode { try database.registerReady(Self.scripted([part]), as: "x") } == .invalidDefinition)
    }
  }

  @Test func `a part refuses the calls that its form does not support`() throws {
    let database = try Database.inMemory()
    let handle = try database.registerReady(Self.scripted(), as: "scripted")
    try database.change { tx throws in
      for form in ["values", "once", "log", "scratch"] {
        #expect(errorCode { try tx[handle].part(form).add(1, to: [1]) } == .invalidArgument, "\(form)")
        #expect(errorCode { _ = try tx[handle].part(form).counter([1]) } == .invalidArgument, "\(form)")
      }
      for form in ["sums", "maxima"] {
        let part = try tx[handle].part(form)
        #expect(errorCode { try part.put([1], [1]) } == .invalidArgument)
        #expect(errorCode { try part.putStamped([1], Varve.StampPosition.pending, at: .value(0)) } == .invalidArgument)
        for number in [Int64(-5), -7, -6] { try part.add(number, to: [1]) }
      }
      #expect(try tx[handle].part("sums").counter([1]) == -18)
      #expect(try tx[handle].part("maxima").counter([1]) == -5)
      #expect(try tx[handle].part("maxima").counter([2]) == 0)
    }
  }

  @Test func `the encoding of maximum counters sorts by their numbers`() {
    let numbers: [Int64] = [.min, -2, -1, 0, 1, 255, 256, .max]
    let bytes = numbers.map { CounterRule.maximum.bytes($0) }
    #expect(bytes == bytes.sorted { $0.lexicographicallyPrecedes($1) })
    #expect(bytes.map { CounterRule.maximum.number($0) } == numbers)
    #expect(CounterRule.maximum.number([1, 2, 3]) == nil)
  }
}
