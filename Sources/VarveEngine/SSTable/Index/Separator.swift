/// Short keys that keep two neighbours apart.
enum Separator {
  /// Appends the shortest key s that is easy to find with `left` <= s < `right`. Requires `left` <
  /// `right`.
  static func append(between left: ByteView, and right: ByteView, to writer: inout ByteWriter) {
    let shared = left.sharedPrefixCount(right)
    // Left is a prefix of right: left itself.
    guard shared < left.count, shared < right.count else { return writer.append(left) }
    if right.count > shared + 1 {
      // The first byte that differs, taken from right, makes a proper prefix of right above left.
      return writer.append(right.slice(0, shared + 1))
    }
    if left[shared] + 1 < right[shared] {
      writer.append(left.slice(0, shared))
      return writer.append(integer: left[shared] + 1)
    }
    // Right is one above left in its last byte: the first later byte of left that can grow.
    var index = shared + 1
    while index < left.count, left[index] == 0xff { index += 1 }
    guard index < left.count else { return writer.append(left) }
    writer.append(left.slice(0, index))
    writer.append(integer: left[index] + 1)
  }
}
