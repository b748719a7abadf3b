internal import UnicodeNormalForm

/// Converts text to Unicode's normal form C, in which texts that look the same have the same bytes.
enum ComposedText {
  /// Returns the text in normal form C. Complexity: O(bytes), without an allocation for a text that is already in the
  /// form.
  static func of(_ text: String) -> String {
    var text = text
    return text.withUTF8 { buffer in
      // Safety: the buffer is valid during the closure, and every byte of it is initialized.
      let utf8 = unsafe RawSpan(_unsafeBytes: UnsafeRawBufferPointer(buffer))
      if NormalForm.isComposed(utf8) { return nil }
      return String(decoding: NormalForm.composed(utf8), as: UTF8.self)
    } ?? text
  }
}
