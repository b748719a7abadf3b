import Testing

@testable import VarveTool

struct KeyTextTests {
  @Test func `hexadecimal text is parsed into the bytes that it was printed from`() {
    let bytes = (0...255).map { UInt8($0) }
    #expect(HexText.bytes(HexText.text(bytes)) == bytes)
    #expect(HexText.bytes("0aFF") == [0x0a, 0xff])
    #expect(HexText.bytes("") == [])
  }

  @Test(arguments: ["0", "0g", "0x00", "é0", "000"])
  func `text that is not an even number of hexadecimal digits is refused`(text: String) {
    #expect(HexText.bytes(text) == nil)
  }

  @Test func `printed text escapes control characters, backslashes and invalid UTF-8`() {
    #expect(PrintableText.text(Array("plain é".utf8)) == "plain é")
    #expect(PrintableText.text(Array("a\tb\nc\\".utf8)) == "a\\x09b\\x0ac\\x5c")
    #expect(PrintableText.text([0x61, 0xff, 0x00]) == "a\\xff\\x00")
    #expect(PrintableText.text(Array("\u{85}".utf8)) == "\\xc2\\x85")
  }

  @Test func `printed numbers are rounded, and sizes have binary units`() {
    #expect(SizeText.fixed(1.999, 2) == "2.00")
    #expect(SizeText.fixed(0.05, 1) == "0.1")
    #expect(SizeText.fixed(-1.25, 2) == "-1.25")
    #expect(SizeText.fixed(.infinity, 2) == "-")
    #expect(SizeText.text(1023) == "1023 B")
    #expect(SizeText.text(3 << 29) == "1.5 GiB")
    #expect(SizeText.ratio(1, 0) == 0)
  }
}
