internal import UnicodeNormalForm

extension String {
  /// The string without case and diacritical marks: "Émile", "EMILE" and "emile" have the same folded form.
  ///
  /// ```swift
  /// let byName = Index { $0.name.folded }
  /// let found = people.query.filter { $0.name.folded.hasPrefix("Émi".folded) }
  /// ```
  ///
  /// The form is computed by tables of this module for Unicode 17, so that it is the same on every system: an index
  /// that is declared as above needs no `version:`. Combining marks are removed, and each letter is replaced by the
  /// lowercase of its uppercase; letters with a stroke are unchanged. The form is independent of the language; for an
  /// order for users, use a computed key. Complexity: O(n).
  public var folded: String {
    var copy = self
    return copy.withUTF8 { utf8 in
      String(decoding: FoldedForm.folded(unsafe RawSpan(_unsafeElements: utf8)), as: UTF8.self)
    }
  }
}
