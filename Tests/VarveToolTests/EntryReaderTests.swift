import Foundation
import Testing

@testable import VarveTool

/// Tests of both forms of a bulk file, written and read back, and of broken files.
struct EntryReaderTests {
  private static let entries = [
    InputEntry(family: nil, key: [], value: []),
    InputEntry(family: nil, key: Array("key \"1\"".utf8), value: Array("line\nline\u{0}é".utf8)),
    InputEntry(family: "other", key: [0xff, 0x00], value: [0xc3]),
    InputEntry(family: nil, key: Array("last".utf8), value: Array(repeating: 0x7a, count: 600_000)),
  ]

  @Test func `entries written as JSON lines are read back unchanged`() throws {
    var text: [UInt8] = []
    for entry in Self.entries {
      text += try JSONText.bytes(EntryRecord(family: entry.family, key: entry.key, value: entry.value)) + [0x0a]
    }
    try Self.expect(text, isBinary: false)
    try Self.expect(text.dropLast() + Array("\r\n \n".utf8), isBinary: false)
  }

  @Test func `entries written in the binary form are read back unchanged`() throws {
    try Self.expect(Self.binary, isBinary: true)
  }

  @Test func `a binary file truncated at any position is an error, and never a shorter load`() throws {
    let whole = Self.binary
    for count in [0, 4, 8, 9, 14, 20, 40, whole.count - 9, whole.count - 1] {
      let file = try TemporaryFile(Array(whole.prefix(count)))
      #expect(throws: ToolError.self, "cut at \(count)") { try Self.read(file, isBinary: true) }
    }
  }

  @Test func `a size above the limit is refused before memory is allocated for it`() throws {
    let bytes = BinaryStream.magic + [1, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x61]
    let file = try TemporaryFile(bytes)
    let error = #expect(throws: ToolError.self) { try Self.read(file, isBinary: true) }
    #expect(error?.message.contains("above the limit") == true)
  }

  @Test(arguments: [
    "{\"key\":\"a\"}", "{\"value\":\"a\"}", "{\"key\":\"a\",\"keyHex\":\"00\",\"value\":\"\"}",
    "{\"keyHex\":\"0\",\"value\":\"\"}", "{\"key\":1,\"value\":\"\"}", "[]", "{", "key,value",
  ])
  func `a line that is not an entry is reported by its number`(line: String) throws {
    let file = try TemporaryFile(Array("{\"key\":\"a\",\"value\":\"b\"}\n\n\(line)\n".utf8))
    let error = #expect(throws: ToolError.self) { try Self.read(file, isBinary: false) }
    #expect(error?.message.hasPrefix("line 3: ") == true, "\(error?.message ?? "")")
    #expect(error?.status == .cannotOpen)
  }

  @Test func `a source reports its position and the checksum of the bytes before it`() throws {
    let bytes = (0..<700_000).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }
    let file = try TemporaryFile(bytes)
    let read = try ByteSource(file.path)
    while try read.nextLine() != nil, read.position < 500_000 {}
    let skipped = try ByteSource(file.path)
    #expect(try skipped.skip(read.position))
    #expect(skipped.checksum == read.checksum)
    #expect(try skipped.next(1) == [bytes[Int(read.position)]])
    #expect(try skipped.skip(UInt64(bytes.count)) == false)

    var changed = bytes
    changed[Int(read.position) - 1] ^= 1
    let changedFile = try TemporaryFile(changed)
    let other = try withExtendedLifetime(changedFile) { try ByteSource(changedFile.path) }
    #expect(try other.skip(read.position))
    #expect(other.checksum != read.checksum)
  }

  // MARK: - Help

  private static var binary: [UInt8] {
    var bytes = BinaryStream.magic
    var family: String?
    for entry in entries {
      if entry.family != family { bytes += BinaryStream.family(entry.family) }
      family = entry.family
      bytes += BinaryStream.entry(entry.key, entry.value)
    }
    return bytes + BinaryStream.end(count: UInt64(entries.count))
  }

  private static func expect(_ bytes: [UInt8], isBinary: Bool) throws {
    let found = try read(try TemporaryFile(bytes), isBinary: isBinary)
    #expect(found.map(\.family) == entries.map(\.family))
    #expect(found.map(\.key) == entries.map(\.key))
    #expect(found.map(\.value) == entries.map(\.value))
  }

  @discardableResult
  private static func read(_ file: TemporaryFile, isBinary: Bool) throws -> [InputEntry] {
    var reader = EntryReader(try ByteSource(file.path), file: file.path, isBinary: isBinary)
    var entries: [InputEntry] = []
    while let entry = try reader.next() { entries.append(entry) }
    return entries
  }
}

/// A temporary file that is removed when the last reference is released.
final class TemporaryFile {
  let path: String

  init(_ bytes: [UInt8]) throws {
    path = NSTemporaryDirectory() + "varve-tool-\(UUID().uuidString)"
    try Data(bytes).write(to: URL(fileURLWithPath: path))
  }

  deinit { try? FileManager.default.removeItem(atPath: path) }
}
