import Testing

@testable import EngineFixtures
@testable import VarveEngine

struct TableDumpTests {
  static func lines(_ entries: [Entry], _ parts: TableDump.Parts, _ change: (inout TableOptions) -> Void = { _ in })
    throws -> [String]
  {
    var options = TableOptions()
    options.compression = .none
    options.blockSize = 16 * 1024
    change(&options)
    let table = try TestTable(entries, options, tableID: 0xabc)
    var lines: [String] = []
    try TableDump.run(table.reader, parts) { lines.append($0) }
    return lines
  }

  static func entry(_ key: String, _ sequence: UInt64, _ kind: EntryKind = .put, _ value: String = "") -> Entry {
    Entry(key: Array(key.utf8), sequence: sequence, kind: kind, value: Array(value.utf8))
  }

  @Test func `a dump prints every record of a small table`() throws {
    let entries = [
      Self.entry("", 9, .put, "empty key"), Self.entry("apple", 12, .delete), Self.entry("apple", 7, .put, "red"),
      Self.entry("apricot", 8, .put, "a \"quote\"\n"),
    ]
    let text = try Self.lines(entries, .all).joined(separator: "\n")
    #expect(
      text == #"""
        table 0xabc version 2 size 500 data 112
        features 0x0 transform 0 index levels 1
        root at 181 stored 106 content 106
        filter at 112 lines 1 probes 6
        properties at 292 stored 75 content 75
        entries 4 keys 3 tombstones 1
        key bytes 17 value bytes 22 content 107
        data blocks 1 copied 0
        sequences 7...12
        from ""@9 put to "apricot"@8 put
        codec none block size 16384 bloom bits 10
        made by flush for level 0 at 0
        block up to "apricot" at 0 stored 107 content 107 rows 4 tombstones 1 sequences 7...12 several-versions
          rows 4 prefix "" keys 17 values 22 widths suffix 1 value 1 sequence 1 kind 1
          bundle 0 prefix ""
            ""@9 put = "empty key"
            "apple"@12 delete = ""
            "apple"@7 put = "red"
            "apricot"@8 put = "a \"quote\"\x0a"
        """#)
  }

  @Test func `partitions, separators and neighbours that share a key are printed`() throws {
    let hot = (0..<6).map { Self.entry("user/hot", UInt64(20 - $0), .put, "0123456789") }
    let rest = (0..<20).map { Self.entry("user/x\(100 + $0)", 3, .put, "value") }
    let text = try Self.lines([Self.entry("user/a", 5, .put, "v")] + hot + rest, [.index, .blocks]) {
      $0.blockSize = 100
      $0.indexPartitionSize = 120
    }.joined(separator: "\n")
    #expect(
      text == #"""
        partition up to "user/x105" at 676 stored 143 content 143 rows 13 tombstones 0 sequences 3...20
          block up to "user/hot"@18 at 0 stored 110 content 110 rows 4 tombstones 0 sequences 5...20 several-versions continues-after
            rows 4 prefix "user/" keys 10 values 31 widths suffix 1 value 1 sequence 1 kind 0
            bundle 0 prefix ""
          block up to "user/x100" at 115 stored 117 content 117 rows 4 tombstones 0 sequences 3...17 several-versions continues-before
            rows 4 prefix "user/" keys 13 values 35 widths suffix 1 value 1 sequence 1 kind 0
            bundle 0 prefix ""
          block up to "user/x105" at 237 stored 88 content 88 rows 5 tombstones 0 sequences 3...3
            rows 5 prefix "user/x10" keys 5 values 25 widths suffix 0 value 0 sequence 0 kind 0
            bundle 0 prefix ""
        partition up to "user/x119" at 824 stored 119 content 119 rows 14 tombstones 0 sequences 3...3
          block up to "user/x110" at 330 stored 92 content 92 rows 5 tombstones 0 sequences 3...3
            rows 5 prefix "user/x1" keys 10 values 25 widths suffix 0 value 0 sequence 0 kind 0
            bundle 0 prefix ""
          block up to "user/x115" at 427 stored 88 content 88 rows 5 tombstones 0 sequences 3...3
            rows 5 prefix "user/x11" keys 5 values 25 widths suffix 0 value 0 sequence 0 kind 0
            bundle 0 prefix ""
          block up to "user/x119" at 520 stored 82 content 82 rows 4 tombstones 0 sequences 3...3
            rows 4 prefix "user/x11" keys 4 values 20 widths suffix 0 value 0 sequence 0 kind 0
            bundle 0 prefix ""
        """#)
  }

  @Test func `columns whose rows are all alike take no bytes`() throws {
    let entries = (0..<20).map { Self.entry("user/x\(100 + $0)", 3, .put, "value") }
    let text = try Self.lines(entries, [.index, .blocks]).joined(separator: "\n")
    #expect(
      text == #"""
        block up to "user/x119" at 0 stored 208 content 208 rows 20 tombstones 0 sequences 3...3
          rows 20 prefix "user/x1" keys 37 values 100 widths suffix 0 value 0 sequence 0 kind 0
          bundle 0 prefix ""
          bundle 1 prefix "1"
        """#)
  }
}
