import Foundation
import Testing

@testable import VarveTool

/// Tests of the JSON reader: it is as strict as Foundation's, and loses no information.
struct JSONValueTests {
  private static let texts = [
    "null", "true", "[]", "{}", "[1,-0,0.5,1e9,1E+9,1.5e-3]", "{\"a\":{\"b\":[null]},\"\":\"\"}", " [ 1 , 2 ]\t\r\n",
    "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00\"", "\"é 漢 😀\"", "12345678901234567890123456789",
  ]

  private static let broken = [
    "", " ", "nul", "truex", "[", "[1", "[1,", "[1,]", "[,1]", "]", "{", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1,}",
    "{a:1}",
    "01", "-", "1.", ".5", "1e", "+1", "0x1", "NaN", "\"", "\"\\\"", "\"\\x\"", "\"\\u12\"", "\"\\ud83d\"",
    "\"\\ude00\\ud83d\"",
    "\"a\nb\"", "1 2", "'a'", "//", "\u{feff}1",
  ]

  @Test(arguments: texts)
  func `text that Foundation parses as JSON is parsed into the same value`(text: String) throws {
    let value = try JSONValue.parse(Array(text.utf8))
    let known = try JSONSerialization.jsonObject(with: Data(text.utf8), options: .fragmentsAllowed)
    let written = try JSONSerialization.data(withJSONObject: [known])
    guard text.first != "1" else { return }
    let other = try JSONValue.parse(Array(written))
    #expect(JSONValue.array([value]).isSame(as: other), "\(text)")
  }

  @Test(arguments: broken)
  func `text that is not JSON is refused with its offset`(text: String) {
    let error = #expect(throws: RecordError.self) { try JSONValue.parse(Array(text.utf8)) }
    #expect(error?.message.hasPrefix("not valid JSON at byte ") == true, "\(error?.message ?? "")")
  }

  @Test func `bytes that are not UTF-8 and excessive nesting are refused`() throws {
    #expect(throws: RecordError.self) { try JSONValue.parse([0x22, 0xff, 0x22]) }
    #expect(throws: RecordError.self) { try JSONValue.parse([UInt8](repeating: 0x5b, count: 1 << 20)) }
    let deep = String(repeating: "[", count: 513) + String(repeating: "]", count: 513)
    _ = try JSONValue.parse(Array(deep.utf8))
  }

  @Test func `numbers keep their text, and members the range of their bytes`() throws {
    let text = Array("{\"a\": 1.50 ,\"b\":12345678901234567890}".utf8)
    guard case .object(let members) = try JSONValue.parse(text) else {
      Issue.record("no object")
      return
    }
    #expect(members.map { String(decoding: text[$0.range], as: UTF8.self) } == ["1.50", "12345678901234567890"])
    guard case .number(let number) = members[1].value else {
      Issue.record("no number")
      return
    }
    #expect(number == "12345678901234567890")
  }

  @Test(arguments: [
    ("1", "1.0", true), ("100", "1e2", true), ("1", "2", false), ("1", "\"1\"", false),
    ("{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}", true),
    ("{\"a\":1}", "{\"a\":1,\"b\":2}", false), ("[1,2]", "[2,1]", false), ("\"\\u00e9\"", "\"é\"", true),
    ("\"e\u{301}\"", "\"é\"", false),
    ("9007199254740993", "9007199254740992", false), ("null", "false", false),
  ])
  func `JSON texts compare as the same exactly if their values are equal`(left: String, right: String, isSame: Bool)
    throws
  {
    let values = try [left, right].map { try JSONValue.parse(Array($0.utf8)) }
    #expect(values[0].isSame(as: values[1]) == isSame)
    #expect(values[1].isSame(as: values[0]) == isSame)
  }

  @Test func `a printed line is valid JSON, whatever characters its strings contain`() throws {
    var line = JSONLine()
    let text = "\u{0}\u{1f}\"\\\n\r\t\u{7f}\u{85}\u{2028}\u{2029}é😀"
    line.add("b", text)
    line.add("a", Int64.min)
    #expect(line.text.hasPrefix("{\"a\":-9223372036854775808,\"b\":"))
    #expect(line.text.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x85 && $0.value != 0x2028 })
    let read = try JSONSerialization.jsonObject(with: Data(line.text.utf8)) as? [String: Any]
    #expect((read?["b"] as? String).map { Array($0.unicodeScalars) } == Array(text.unicodeScalars))
  }
}
