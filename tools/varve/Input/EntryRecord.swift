/// One entry as a JSON object, as `load` reads and `export` and `scan --json` write it.
///
/// An example is `{"key":"a","value":"b"}`. A key or value that is not UTF-8 is in `keyHex` or `valueHex`, with
/// hexadecimal digits. `family` exists for every family except the default one. The first entry of a family has its
/// options in `familyOptions`, if one of them is not the default. On disk: never change a name.
struct EntryRecord: Codable {
  var family: String?
  var familyOptions: FamilyOptionsRecord?
  var key: String?
  var keyHex: String?
  var value: String?
  var valueHex: String?

  /// Creates the record of an entry. Without a value only its key is written.
  init(family: String?, options: FamilyOptionsRecord? = nil, key: [UInt8], value: [UInt8]?) {
    self.family = family
    familyOptions = options
    if let text = String(validating: key, as: UTF8.self) { self.key = text } else { keyHex = HexText.text(key) }
    guard let value else { return }
    if let text = String(validating: value, as: UTF8.self) {
      self.value = text
    } else {
      valueHex = HexText.text(value)
    }
  }

  /// Returns the key's bytes. Throws an error that describes the fault in the object.
  func keyBytes() throws(RecordError) -> [UInt8] { try Self.bytes("key", key, keyHex) }

  /// Returns the value's bytes. Throws as `keyBytes` does.
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

/// The error for an invalid record of the input.
struct RecordError: Error {
  let message: String
  init(_ message: String) { self.message = message }
}

/// An entry of the input.
struct InputEntry {
  let family: String?
  /// The options of the family, of which the input tells once.
  var options: FamilyOptionsRecord?
  let key: [UInt8]
  let value: [UInt8]
}
