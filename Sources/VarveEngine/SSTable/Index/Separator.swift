/// Computes short keys that separate two neighboring keys.
enum Separator {
  /// Appends a short key s with `left` <= s < `right`: the shortest one that is easy to compute. Requires `left` <
  /// `right`.
  static func append(between left: ByteView, and right: ByteView, to writer: inout ByteWriter) {
    let shared = left.sharedPrefixCount(right)
    // If `left` is a prefix of `right`, the separator is `left` itself.
    guard shared < left.count, shared < right.count else { return writer.append(left) }
    if right.count > shared + 1 {
      // The shared bytes and the first different byte of `right` are a proper prefix of `right`, above `left`.
      return writer.append(right.slice(0, shared + 1))
    }
    if left[shared] + 1 < right[shared] {
      writer.append(left.slice(0, shared))
      return writer.append(integer: left[shared] + 1)
    }
    // `right` ends one above `left` in the first different byte, so the first later byte of `left` that can be
    // incremented is.
    var index = shared + 1
    while index < left.count, left[index] == 0xff { index += 1 }
    guard index < left.count else { return writer.append(left) }
    writer.append(left.slice(0, index))
    writer.append(integer: left[index] + 1)
  }
}
