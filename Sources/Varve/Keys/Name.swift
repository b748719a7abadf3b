internal import UnicodeNormalForm

/// The names of collections and extensions on disk: in normal form C, so that names that are equal in Swift have one
/// record.
enum Name {
  /// The name in normal form C. Complexity: O(bytes); without an allocation for a name that has the form.
  static func composed(_ name: String) -> String {
    var name = name
    return name.withUTF8 { buffer in
      // Safety: the buffer lives as long as the closure, and every byte of it is initialised.
      let utf8 = unsafe RawSpan(_unsafeBytes: UnsafeRawBufferPointer(buffer))
      if NormalForm.isComposed(utf8) { return nil }
      return String(decoding: NormalForm.composed(utf8), as: UTF8.self)
    } ?? name
  }
}
