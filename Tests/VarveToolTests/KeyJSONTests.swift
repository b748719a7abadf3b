import Foundation
import Testing
import Varve

@testable import VarveTool

/// Tests of keys as JSON: the expected text, and the same bytes when it is read.
struct KeyJSONTests {
  private func expect(_ key: some KeyCodable, _ json: String) throws {
    let bytes = try key.encoded()
    #expect(KeyJSON.text(bytes) == json)
    #expect(try KeyJSON.key(JSONValue.parse(Array(json.utf8))) == bytes, "\(json)")
  }

  @Test func `each kind of key part has a JSON form, which is read back as the same bytes`() throws {
    try expect("a", #""a""#)
    try expect(Int?.some(42), #"{"some":42}"#)
    try expect(1.5, #"{"double":1.5}"#)
    try expect(Decimal(string: "-12.50"), #"{"some":{"decimal":"-12.5"}}"#)
    try expect(Duration.milliseconds(-1_500), #"{"duration":"-1.5s"}"#)
    try expect(Descending("a\0"), #"{"descending":"a\u0000"}"#)
    try expect(Descending(Int?.some(1)), #"{"descending":{"some":1}}"#)
    try expect(
      Compound("x", Descending(Decimal(2)), Descending(Duration.seconds(1)), 7),
      #"["x",{"descending":{"decimal":"2"}},{"descending":{"duration":"1s"}},7]"#)
  }

  @Test(arguments: [
    (#"{"decimal":"nan"}"#, "decimal"), (#"{"decimal":1}"#, "of no kind"), (#"{"duration":"1"}"#, "duration"),
    (#"{"descending":[1]}"#, "array"), (#"{"descending":{"duration":"x"}}"#, "duration"),
  ])
  func `JSON that is not a key is refused`(json: String, what: String) throws {
    let value = try JSONValue.parse(Array(json.utf8))
    let error = #expect(throws: RecordError.self) { _ = try KeyJSON.key(value) }
    #expect(error?.message.contains(what) == true, "\(error?.message ?? "")")
  }
}
