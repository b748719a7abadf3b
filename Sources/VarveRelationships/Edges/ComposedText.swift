internal import UnicodeNormalForm

/// Text in Unicode's normal form C: texts that look the same have the same bytes then.
enum ComposedText {
  /// The text in that form. Complexity: O(bytes); without an allocation for a text that has the form.
  static func of(_ text: String) -> String {
    var text = text
    return text.withUTF8 { buffer in
      // Safety: the buffer lives as long as the closure, and every byte of it is initialised.
      let utf8 = unsafe RawSpan(_unsafeBytes: UnsafeRawBufferPointer(buffer))
      if NormalForm.isComposed(utf8) { return nil }
      return String(decoding: NormalForm.composed(utf8), as: UTF8.self)
    } ?? text
  }
}
