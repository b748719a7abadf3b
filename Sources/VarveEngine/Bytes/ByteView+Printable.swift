extension ByteView {
  /// The bytes in quotes, for people: printable ASCII as it is, the rest as `\xNN`, and what is long
  /// cut with its length.
  var printable: String {
    let shownMaximum = 64
    var text = "\""
    for index in 0..<min(count, shownMaximum) {
      let byte = self[index]
      switch byte {
      case 0x22, 0x5c: text += "\\" + String(UnicodeScalar(byte))
      case 0x20..<0x7f: text += String(UnicodeScalar(byte))
      default: text += "\\x" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
      }
    }
    return count > shownMaximum ? text + "\"… (\(count) bytes)" : text + "\""
  }
}
