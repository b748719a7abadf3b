/// Formats a number with what it counts.
enum Count {
  /// Returns `1 row` or `2 rows`. A noun whose plural is not made with an s has it in `plural`.
  static func text(_ count: some BinaryInteger, _ noun: String, plural: String? = nil) -> String {
    "\(count) \(count == 1 ? noun : plural ?? noun + "s")"
  }
}
