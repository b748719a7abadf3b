/// One entry as a JSON object: what `load` reads and `export` and `scan --json` write.
///
/// `{"key":"a","value":"b"}`; a key or value that is not UTF-8 is `keyHex` or `valueHex`, with hexadecimal
/// digits; `family` is there for every family but the default one. On disk: never change a name.
struct EntryRecord: Codable {
  var family: String?
  var key: String?
  var keyHex: String?
  var value: String?
  var valueHex: String?

  /// An entry; without a value only its key is written.
  init(family: String?, key: [UInt8], value: [UInt8]?) {
    self.family = family
    if let text = String(validating: key, as: UTF8.self) { self.key = text } else { keyHex = HexText.text(key) }
    guard let value else { return }
    if let text = String(validating: value, as: UTF8.self) {
      self.value = text
    } else {
      valueHex = HexText.text(value)
    }
  }

  /// The key's bytes. Throws what is wrong with the object, in words.
  func keyBytes() throws(RecordError) -> [UInt8] { try Self.bytes("key", key, keyHex) }

  /// The value's bytes.
  func valueBytes() throws(RecordError) -> [UInt8] { try Self.bytes("value", value, valueHex) }

  private static func bytes(_ name: String, _ text: String?, _ hex: String?) throws(RecordError) -> [UInt8] {
    switch (text, hex) {
    case (let text?, nil): return Array(text.utf8)
    case (nil, let hex?):
      guard let bytes = HexText.bytes(hex) else {
        throw RecordError("\(name)Hex is not an even number of hexadecimal digits")
      }
      return bytes
    case (nil, nil): throw RecordError("neither \(name) nor \(name)Hex is there")
    case (.some, .some): throw RecordError("\(name) and \(name)Hex exclude each other")
    }
  }
}

/// What is wrong with a record of the input.
struct RecordError: Error {
  let message: String
  init(_ message: String) { self.message = message }
}

/// An entry with its position in the input.
struct InputEntry {
  let family: String?
  let key: [UInt8]
  let value: [UInt8]
}
