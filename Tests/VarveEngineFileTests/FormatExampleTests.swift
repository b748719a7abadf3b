import EngineTestSupport
import Foundation
import Testing

@testable import VarveEngine

/// Tests that the examples of the articles about formats have the bytes that the code writes.
struct FormatExampleTests {
  @Test func `a batch is encoded as in the example of the batch article`() throws {
    var writer = ByteWriter()
    Array("user:1".utf8).withByteView { key in
      Array("Ada".utf8).withByteView { value in
        BatchFormat.append(.put, FamilyID(0), key, value, to: &writer)
      }
    }
    Array("k".utf8).withByteView { BatchFormat.append(.delete, FamilyID(300), $0, ByteView(), to: &writer) }
    #expect(try Self.example(of: "WriteBatches") == writer.view.bytes)
  }

  @Test func `an edit is encoded as in the example of the MANIFEST article`() throws {
    var edit = VersionEdit()
    edit.lastSequence = SequenceNumber(300)
    edit.oldestLog = FileNumber(7)
    var writer = ByteWriter()
    edit.encode(appendingTo: &writer)
    #expect(try Self.example(of: "MANIFEST") == writer.view.bytes)
  }

  /// Returns the bytes of the block below the heading `### Example`: on each line, numbers of two hexadecimal digits
  /// up to the first two spaces in sequence.
  private static func example(of article: String) throws -> [UInt8] {
    var folder = URL(fileURLWithPath: #filePath)
    while folder.path != "/", !FileManager.default.fileExists(atPath: folder.path + "/Package.swift") {
      folder.deleteLastPathComponent()
    }
    let path = folder.path + "/Sources/VarveEngine/VarveEngine.docc/Formats/\(article).md"
    let text = try String(contentsOfFile: path, encoding: .utf8)
    let afterHeading = try #require(text.components(separatedBy: "### Example").dropFirst().first)
    let block = try #require(afterHeading.components(separatedBy: "```").dropFirst().first)
    return try block.split(separator: "\n").flatMap { line in
      let digits = try #require(String(line).components(separatedBy: "  ").first)
      return try digits.split(separator: " ").map { try #require(UInt8($0, radix: 16)) }
    }
  }
}
