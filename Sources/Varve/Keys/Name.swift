internal import UnicodeNormalForm

/// Normalizes the names of collections and extensions on disk to normal form C, so that names that are equal in Swift
/// have one record.
enum Name {
  /// Returns the name in normal form C. Complexity: O(bytes), without an allocation for a name that is already in the
  /// form.
  static func composed(_ name: String) -> String {
    var name = name
    return name.withUTF8 { buffer in
      // Safety: the buffer is valid during the closure, and every byte of it is initialized.
      let utf8 = unsafe RawSpan(_unsafeBytes: UnsafeRawBufferPointer(buffer))
      if NormalForm.isComposed(utf8) { return nil }
      return String(decoding: NormalForm.composed(utf8), as: UTF8.self)
    } ?? name
  }
}
