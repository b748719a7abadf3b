import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests written as text: each case has levels, and the pick that is expected for them.
///
/// A line of a case is `level: table table ...`, and a table is `number[first,last]` with options after it: `s` for
/// the size in bytes (default 100), `q` for its sequences as `low-high` (on level 0; by default by number), `t` for
/// the share of tombstones in percent, `!` for a table that is being compacted.
struct LeveledCompactionPickerTests {
  static var options: CompactionPickerOptions {
    var options = CompactionPickerOptions()
    // A flush writes 100 bytes, level 0 compacts at most 400 at once, and tables have 100 bytes.
    options.memtableSize = 200
    options.levelZeroDepthTrigger = 4
    options.targetFileSize = 100
    options.expansionFactor = 50
    return options
  }
  static let picker = LeveledCompactionPicker(options: options)

  static func parse(_ text: String, isSettling: Bool = false) throws -> LeveledCompactionPicker.Input {
    var levels: [Int: [TableMetadata]] = [:]
    var busy: [Int: [TableMetadata]] = [:]
    for line in text.split(separator: "\n") {
      let parts = line.split(separator: ":", maxSplits: 1)
      let level = try #require(Int(parts[0].trimmed))
      for word in parts[1].split(separator: " ") {
        let open = try #require(word.firstIndex(of: "["))
        let close = try #require(word.firstIndex(of: "]"))
        let number = try #require(UInt64(word[..<open]))
        let keys = word[word.index(after: open)..<close].split(separator: ",").map(String.init)
        let rest = word[word.index(after: close)...]
        let table = Make.table(
          number, keys[0], keys[1], sequences: level == 0 ? (number * 10)...(number * 10 + 9) : 1...9,
          size: Self.number(rest, "s") ?? 100, tombstones: (Self.number(rest, "t") ?? 0) * 10)
        levels[level, default: []].append(table)
        if rest.contains("!") { busy[level, default: []].append(table) }
      }
    }
    let version = try Make.version(levels)
    var inProgress = CompactionsInProgress()
    for (level, tables) in busy {
      // The tables of a level are treated as if they were rewritten in their level: only that they are busy matters.
      let range = try #require(UserKeyRange(around: tables))
      _ = inProgress.begin(
        Compaction(
          family: 1, reason: .manual, inputs: [.init(level: level, tables: tables)], outputLevel: level,
          range: range, version: version, targetFileSize: 100))
    }
    return LeveledCompactionPicker.Input(family: 1, version: version, inProgress: inProgress, isSettling: isSettling)
  }

  private static func number(_ text: Substring, _ letter: Character) -> UInt64? {
    guard let start = text.firstIndex(of: letter) else { return nil }
    return UInt64(text[text.index(after: start)...].prefix { $0.isNumber })
  }

  static func render(_ compaction: Compaction?) -> String {
    guard let compaction else { return "nothing" }
    let inputs = compaction.inputs.map { input in
      "\(input.level): " + input.tables.map { "\($0.number)" }.joined(separator: " ")
    }.joined(separator: ", ")
    var text = "\(compaction.reason) \(inputs) -> \(compaction.outputLevel)"
    if compaction.isTrivialMove { text += " unread" }
    if compaction.isBottommost { text += " bottommost" }
    if !compaction.grandparents.isEmpty {
      text += " above " + compaction.grandparents.map { "\($0.number)" }.joined(separator: " ")
    }
    return text
  }

  static func pick(_ input: LeveledCompactionPicker.Input) -> Compaction? {
    var seeds = LevelSeeds()
    return picker.pick(input, &seeds)
  }

  static func pick(_ text: String) throws -> String { render(pick(try parse(text))) }

  @Test func `with little space, level 0 is merged from the oldest tables up`() throws {
    let text = "0: 13[a,f] 12[a,f] 11[a,f] 10[a,f]\n6: 1[a,f] 2[g,m] 3[n,t] 4[u,z]"
    func pick(_ space: UInt64) throws -> String {
      var input = try Self.parse(text)
      input.space = space
      return Self.render(Self.pick(input))
    }
    #expect(try pick(600) == "levelZero 0: 13 12 11 10, 6: 1 -> 6 bottommost")
    #expect(try pick(400) == "levelZero 0: 11 10, 6: 1 -> 6 bottommost")
    #expect(try pick(250) == "levelZero 0: 10, 6: 1 -> 6 bottommost")
    #expect(try pick(200) == "nothing")
  }

  @Test func `with little space, a table that overlaps less is taken, and none with its neighbors`() throws {
    let text = "5: 10[a,c]s500 11[d,f]s500 12[g,h]s500 13[m,z]s900\n6: 1[a,f]s900 2[g,h]s800 3[m,z]s1000"
    func pick(_ space: UInt64) throws -> String {
      var input = try Self.parse(text)
      input.space = space
      return Self.render(Self.pick(input))
    }
    #expect(try pick(.max) == "levelSize 5: 13, 6: 3 -> 6 bottommost")
    #expect(try pick(1_400) == "levelSize 5: 12, 6: 2 -> 6 bottommost")
    #expect(try pick(1_300) == "nothing")
  }

  @Test func `with little space, tables over several of the next level are divided where those begin`() throws {
    func pick(_ space: UInt64, _ text: String) throws -> (String, [String]) {
      var input = try Self.parse(text)
      input.space = space
      let compaction = Self.pick(input)
      return (Self.render(compaction), (compaction?.divisionKeys ?? []).map { String(decoding: $0, as: UTF8.self) })
    }
    let base = "6: 1[a,f]s400 2[g,m]s400 3[n,t]s400 4[u,z]s400"
    let whole = "0: 13[a,z] 12[a,z] 11[a,z] 10[a,z]\n\(base)"
    #expect(try pick(2_200, whole) == ("levelZero 0: 13 12 11 10, 6: 1 2 3 4 -> 6 bottommost", []))
    #expect(try pick(1_600, whole) == ("division 0: 10 -> 0", ["n", "u"]))
    #expect(try pick(1_000, whole) == ("division 0: 10 -> 0", ["g", "n", "u"]))
    // A part of all four would not fit, but one of two does.
    #expect(try pick(500, whole) == ("division 0: 10 -> 0", ["g", "n", "u"]))
    #expect(try pick(400, whole) == ("nothing", []))
    // Divided tables are left, and the next one is divided; then the parts are compacted.
    let divided = "0: 33[a,z] 32[a,z] 31[a,z] 19[u,z]s25 18[n,t]s25 17[g,m]s25 16[a,f]s25\n\(base)"
    #expect(try pick(1_000, divided) == ("division 0: 31 -> 0", ["g", "n", "u"]))
    let newer = "0: 35[u,z] 34[n,t] 33[g,m] 32[a,f] 31[u,z] 30[n,t] 29[g,m] 28[a,f] "
    let older = "27[u,z] 26[n,t] 25[g,m] 24[a,f] 23[u,z] 22[n,t] 21[g,m] 20[a,f]\n\(base)"
    #expect(try pick(1_000, newer + older) == ("levelZero 0: 32 28 24 20, 6: 1 -> 6 bottommost", []))
    // On other levels, too.
    let level = "5: 10[a,m]s600 11[n,z]s600\n\(base)"
    #expect(try pick(.max, level) == ("levelSize 5: 10, 6: 1 2 -> 6 bottommost", []))
    #expect(try pick(1_000, level) == ("division 5: 10 -> 5 above 1 2", ["g"]))
    #expect(try pick(500, level) == ("nothing", []))
    // A table that does not fit does not keep what lies beside it from the levels below, if there are any.
    let between = "0: 13[a,z]s50 12[a,z]s50 11[a,z]s50 10[a,z]s50\n5: 5[h,k]s900 6[p,r]s900\n\(base)"
    #expect(try pick(500, between) == ("division 0: 10 -> 0", ["h", "k\0", "p", "r\0"]))
    let inner = "0: 13[h,k]s50 12[h,k]s50 11[h,k]s50 10[h,k]s50\n5: 5[h,k]s900 6[p,r]s900\n\(base)"
    #expect(try pick(500, inner) == ("nothing", []))
  }

  @Test func `a table moves down when there is no space at all`() throws {
    var input = try Self.parse("0: 10[a,f]\n6: 1[g,m]")
    input.space = 0
    #expect(Self.render(Self.pick(input)) == "move 0: 10 -> 6 unread bottommost")
  }

  @Test func `a shallow level 0 over a base level with data is not compacted`() throws {
    #expect(try Self.pick("0: 9[a,z] 8[a,z] 7[a,z]\n6: 1[a,m] 2[n,z]") == "nothing")
  }

  @Test func `when writes have paused, a level 0 of half of the base level's size is merged down`() throws {
    func settled(_ text: String) throws -> String {
      Self.render(Self.pick(try Self.parse(text, isSettling: true)))
    }
    #expect(try settled("0: 9[a,z]\n6: 1[a,m] 2[n,z]") == "levelZero 0: 9, 6: 1 2 -> 6 bottommost")
    #expect(try settled("0: 9[a,z]s99\n6: 1[a,m] 2[n,z]") == "nothing")
    // The oldest table moves down unread if no table overlaps it below, and the next one is merged with it.
    #expect(try settled("0: 9[a,z] 8[a,z]") == "move 0: 8 -> 6 unread bottommost")
    #expect(try settled("0: 9[a,z]\n6: 8[a,z]") == "levelZero 0: 9, 6: 8 -> 6 bottommost")
    // A table that is already being moved down is not counted.
    #expect(try settled("0: 9[a,c]! 8[p,q]s99\n6: 1[a,m]! 2[n,z]") == "nothing")
    #expect(try settled("6: 1[a,m] 2[n,z]") == "nothing")
  }

  @Test func `when writes have paused, a level 0 that is small for the base level is merged within itself`() throws {
    var options = Self.options
    options.levelZeroDepthTrigger = 10
    let picker = LeveledCompactionPicker(options: options)
    func picked(_ tables: String, isSettling: Bool = true) throws -> String {
      var seeds = LevelSeeds()
      let input = try Self.parse("0: \(tables)\n6: 1[a,m]s2500 2[n,z]s2500", isSettling: isSettling)
      return Self.render(picker.pick(input, &seeds))
    }
    #expect(try picked("9[a,z]s700 8[a,z]s700 7[a,z]s700 6[a,z]s700").hasPrefix("levelZero 0: 9 8 7 6, 6: 1 2"))
    let small = "9[a,z]s40 8[a,z]s40 7[a,z]s40"
    #expect(try picked(small) == "nothing", "three are few")
    #expect(try picked("\(small) 6[a,z]s40", isSettling: false) == "nothing", "writes continue")
    #expect(try picked("\(small) 6[a,z]s40") == "intraLevelZero 0: 9 8 7 6 -> 0")
    // The output of a merge in an earlier pause is not written again for a few small tables.
    #expect(try picked("\(small) 6[a,z]s400") == "nothing")
    #expect(try picked("\(small) 6[a,z]s40 5[a,z]s400") == "intraLevelZero 0: 9 8 7 6 -> 0")
    #expect(try picked("\(small) 6[a,z]s200") == "intraLevelZero 0: 9 8 7 6 -> 0")
  }

  @Test func `a level 0 of depth four is merged into the base level`() throws {
    #expect(
      try Self.pick("0: 9[a,z] 8[a,z] 7[a,z] 6[a,z]\n6: 1[a,m] 2[n,z]")
        == "levelZero 0: 9 8 7 6, 6: 1 2 -> 6 bottommost")
  }

  @Test func `the deepest column of level 0 is picked first, with the tables that fit into its range`() throws {
    #expect(
      try Self.pick(
        """
        0: 19[a,c] 18[a,c] 17[a,c] 16[a,c] 15[d,e] 14[p,q] 13[p,q]
        6: 1[a,m] 2[n,z]
        """) == "levelZero 0: 19 18 17 16 15, 6: 1 -> 6 bottommost")
  }

  @Test func `disjoint columns of level 0 are compacted concurrently`() throws {
    #expect(
      try Self.pick(
        """
        0: 19[a,c]! 18[a,c]! 17[a,c]! 16[a,c]! 15[p,q] 14[p,q] 13[p,q] 12[p,q]
        6: 1[a,m]! 2[n,z]
        """) == "levelZero 0: 15 14 13 12, 6: 2 -> 6 bottommost")
  }

  @Test func `an older table that overlaps an input is included, and blocks the pick if it is busy`() throws {
    let text = "0: 19[a,c] 18[a,c] 17[a,c] 16[b,p] 15[o,r]\n6: 1[a,m] 2[n,q] 3[s,z]"
    #expect(try Self.pick(text) == "levelZero 0: 19 18 17 16 15, 6: 1 2 -> 6 bottommost")
    #expect(try Self.pick(text.replacing("15[o,r]", with: "15[o,r]!")) == "nothing")
  }

  @Test func `tables above a busy table are not picked until its compaction ends`() throws {
    #expect(
      try Self.pick("0: 19[a,z] 18[a,z] 17[a,z] 16[a,z] 15[a,z]!\n6: 1[a,m] 2[n,z]") == "nothing")
  }

  @Test func `a deep level 0 over a busy base level is merged within itself`() throws {
    let tables = (11...20).reversed().map { "\($0)[a,z]s50" }.joined(separator: " ")
    #expect(
      try Self.pick("0: \(tables)\n6: 1[a,m]! 2[n,z]")
        == "intraLevelZero 0: 20 19 18 17 16 15 14 13 12 11 -> 0")
  }

  @Test func `runs beyond the maximum of one merge are merged within level 0, the smallest first`() throws {
    var options = Self.options
    options.runCountMaximum = 3
    let picker = LeveledCompactionPicker(options: options)
    func picked(_ text: String) throws -> [String] {
      var seeds = LevelSeeds()
      let input = try Self.parse(text)
      guard case .compaction(let manual) = picker.pickManual(input, range: .all) else { return [] }
      return [Self.render(picker.pick(input, &seeds)), Self.render(manual)]
    }
    let deep = "0: 9[a,z]s50 8[a,z]s50 7[a,z]s10 6[a,z]s10 5[a,z]s10\n6: 1[a,m]"
    #expect(try picked(deep) == ["intraLevelZero 0: 7 6 5 -> 0", "intraLevelZero 0: 7 6 5 -> 0"])
    // Tables that do not overlap are one run.
    let wide = "0: 9[a,b] 8[c,d] 7[e,f] 6[g,z] 5[a,z] 4[a,z]\n6: 1[a,m]"
    #expect(try picked(wide)[1] == "manual 0: 9 8 7 6 5 4, 6: 1 -> 6 bottommost")
    // A table that is being compacted blocks the pick.
    let busy = "0: 9[a,z]s50 8[a,z]s50 7[a,z]s10! 6[a,z]s10 5[a,z]s10 4[a,z]\n6: 1[a,m]"
    #expect(try picked(busy).isEmpty, "a manual compaction waits")
  }

  @Test func `a merge within level 0 includes every table between its inputs in age`() throws {
    // 15 overlaps only 12, but the output of 12 with newer tables would hide newer entries in 15.
    let tables = (16...22).reversed().map { "\($0)[a,f]s50" }.joined(separator: " ")
    let pick = try Self.pick("0: \(tables) 15[e,m]s50 12[a,f]s50\n6: 1[a,f]! 2[g,z]!")
    #expect(pick == "intraLevelZero 0: 22 21 20 19 18 17 16 15 12 -> 0")
  }

  @Test func `tables that overlap no other table are moved unread to the deepest possible level`() throws {
    #expect(
      try Self.pick("0: 9[n,p] 8[q,z]\n6: 1[a,m]") == "move 0: 9 8 -> 6 unread bottommost"
    )
    #expect(try Self.pick("0: 9[b,c]\n5: 2[d,e]\n6: 1[a,m]") == "move 0: 9 -> 5 unread above 1")
  }

  @Test func `tables that overlap each other are merged, though nothing is below them`() throws {
    let input = try Self.parse("0: 9[a,m] 8[c,z]")
    guard case .compaction(let compaction) = Self.picker.pickManual(input, range: .all) else {
      Issue.record("nothing is picked")
      return
    }
    #expect(Self.render(compaction) == "manual 0: 9 8 -> 6 bottommost")
    #expect(!compaction.isTrivialMove)
  }

  @Test func `level 0 never passes a level that has tables`() throws {
    #expect(
      try Self.pick("0: 9[a,z] 8[a,z] 7[a,z] 6[a,z]\n4: 3[a,b]\n6: 1[a,m] 2[n,z]")
        == "levelZero 0: 9 8 7 6, 4: 3 -> 4")
  }

  @Test func `a level over its target gives the table with the least overlap, and neighbours that add no overlap`()
    throws
  {
    let text = """
      5: 10[a,c]s1000 11[d,e]s1000 12[f,h]s1000
      6: 1[a,b]s2000 2[c,c]s2000 3[d,h]s1600
      """
    #expect(try Self.pick(text) == "levelSize 5: 11 12, 6: 3 -> 6 bottommost")
    #expect(
      try Self.pick(text.replacing("11[d,e]s1000", with: "11[d,e]s1000!")) == "levelSize 5: 12, 6: 3 -> 6 bottommost")
    #expect(
      try Self.pick(text.replacing("3[d,h]s1600", with: "3[d,h]s1600!"))
        == "levelSize 5: 10, 6: 1 2 -> 6 bottommost")
  }

  @Test func `layout 7: tombstones make a table a better seed, and a table of tombstones is compacted by itself`()
    throws
  {
    #expect(
      try Self.pick("5: 10[a,c] 11[d,f]t80\n6: 1[a,c]s1500 2[d,f]s1000") == "tombstones 5: 11, 6: 2 -> 6 bottommost")
    #expect(try Self.pick("6: 1[a,c] 2[d,f]t60") == "tombstones 6: 2 -> 6 bottommost")
    #expect(try Self.pick("6: 1[a,c] 2[d,f]t40") == "nothing")
  }

  @Test func `a bottommost table is not compacted while a snapshot may need its tombstones`() throws {
    let input = try Self.parse("6: 1[a,c]t100")
    let held = LeveledCompactionPicker.Input(family: 1, version: input.version, oldestSnapshot: SequenceNumber(8))
    #expect(Self.pick(held) == nil)
  }

  @Test func `a manual compaction merges level 0 into the base level, and then all levels in one merge`() throws {
    var input = try Self.parse("0: 9[c,d]\n4: 4[a,c] 5[k,l]\n5: 2[b,f]\n6: 1[a,m] 3[n,z]")
    let range = UserKeyRange(lower: [0x62], upper: [0x64])
    func step() throws -> String {
      switch Self.picker.pickManual(input, range: range) {
      case .compaction(let compaction): Self.render(compaction)
      case .blocked: "blocked"
      case .done: "done"
      }
    }
    #expect(try step() == "manual 0: 9, 4: 4 -> 4 above 2")
    input = try Self.parse("4: 4[a,c]! 5[k,l]\n5: 2[b,f]\n6: 1[a,m] 3[n,z]")
    #expect(try step() == "blocked")
    input = try Self.parse("4: 4[a,d] 5[k,l]\n5: 2[b,f]\n6: 1[a,m] 3[n,z]")
    #expect(try step() == "manual 4: 4, 5: 2, 6: 1 -> 6 bottommost")
    input = try Self.parse("4: 5[k,l]\n6: 1[a,m] 3[n,z]")
    #expect(try step() == "done")
  }

  @Test func `the older tables decide key by key whether a tombstone can be dropped`() throws {
    let version = try Make.version([
      4: [Make.table(3, "a", "z")], 6: [Make.table(1, "c", "e"), Make.table(2, "p", "q")],
    ])
    let compaction = Compaction(
      family: 1, reason: .manual, inputs: [.init(level: 4, tables: version.tables(level: 4))], outputLevel: 5,
      range: .all, version: version, targetFileSize: 100)
    #expect(!compaction.isBottommost)
    var older = DeeperKeys(compaction.older)
    let answers = ["a", "c", "d", "e", "ea", "p", "q", "r"].map { key in key.utf8.withBytes { older.mayHold($0) } }
    #expect(answers == [false, true, true, true, false, true, true, false])
  }

  @Test func `outputs end where a grandparent begins, if they are half full`() {
    let grandparents = [
      Make.table(1, "d", "f", size: 50), Make.table(2, "h", "k", size: 50), Make.table(3, "p", "r", size: 50),
    ]
    var splitter = CompactionOutputSplitter(grandparents: grandparents, targetFileSize: 100)
    let cuts = [
      ("a", 0), ("c", 40), ("d", 49), ("g", 70), ("h", 80), ("i", 20), ("j", 99), ("o", 100), ("p", 10), ("x", 99),
    ]
    .map { key, size in key.utf8.withBytes { splitter.shouldSplit(before: $0, currentSize: UInt64(size)) } }
    #expect(cuts == [false, false, false, false, true, false, false, true, false, false])
  }

  @Test func `subcompactions are of about equal bytes and start at bounds of tables`() throws {
    let input = try Self.parse("0: 9[a,z] 8[a,z] 7[a,z] 6[a,z]\n6: 1[a,f] 2[g,m] 3[n,s] 4[t,z]")
    let compaction = try #require(Self.pick(input))
    func cuts(_ count: Int) -> [String] {
      compaction.subcompactionBoundaries(count: count).map { String(decoding: $0, as: UTF8.self) }
    }
    #expect(cuts(1) == [])
    #expect(cuts(2) == ["n"])
    #expect(cuts(4) == ["g", "n", "t"])
  }

  @Test func `the debt grows with the bytes that are due for compaction, and is zero if none are`() throws {
    func debt(_ text: String) throws -> UInt64 { Self.picker.debtBytes(try Self.parse(text).version) }
    #expect(try debt("0: 9[a,z] 8[a,z] 7[a,z] 6[a,z]\n6: 1[a,m] 2[n,z]") == 0)
    // One of five tables exceeds the depth: that is 100 bytes, and 40 of the base level's 200 for them.
    #expect(try debt("0: 9[a,z] 8[a,z] 7[a,z] 6[a,z] 5[a,z]\n6: 1[a,m] 2[n,z]") == 140)
  }

  @Test func `the target sizes of the levels differ by one factor, from the bottom level on`() throws {
    let small = LevelTargets(
      try Self.parse("6: 1[a,z]s2000").version, options: Self.options, shallowestOutputLevel: nil)
    #expect(small.baseLevel == 6)
    let large = LevelTargets(
      try Self.parse("6: 1[a,z]s25600").version, options: Self.options, shallowestOutputLevel: nil)
    #expect(large.baseLevel == 4)
    #expect(large.sizes.prefix(4) == [0, 0, 0, 0])
    #expect(large.sizes[4...5].map { $0 / 10 } == [160, 640])
  }
}

extension Substring {
  fileprivate var trimmed: String { String(drop { $0 == " " }) }
}
