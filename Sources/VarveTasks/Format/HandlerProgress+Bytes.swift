/// The stored form, a value of `config`: the fraction (8, the bits of a Double), and the note (UTF-8). On disk: never
/// change.
extension HandlerProgress {
  /// The maximum number of bytes of a note that are stored.
  static let noteMaximum = 1_024

  var bytes: [UInt8] {
    var bytes: [UInt8] = []
    bytes.append(number: fraction.bitPattern)
    if let note { bytes.append(contentsOf: note.utf8.prefix(Self.noteMaximum)) }
    return bytes
  }

  init(_ bytes: [UInt8]) throws(DamagedTask) {
    var reader = ByteReader(bytes)
    let fraction = Double(bitPattern: try reader.number())
    let note = String(decoding: bytes[reader.offset...], as: UTF8.self)
    self.init(fraction, note.isEmpty ? nil : note)
  }
}
