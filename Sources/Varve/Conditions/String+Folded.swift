internal import UnicodeNormalForm

extension String {
  /// The string without case and marks: "Émile", "EMILE" and "emile" have one form.
  ///
  /// ```swift
  /// let byName = Index { $0.name.folded }
  /// let found = people.query.filter { $0.name.folded.hasPrefix("Émi".folded) }
  /// ```
  ///
  /// By tables of this module, of Unicode 17, so that it is the same on every system: an index that is declared as above needs no `version:`. Marks
  /// for letters are left out, and each letter becomes the lowercase of its uppercase; letters with a stroke stay as they are. It knows no language: an order for people is the program's own computed key.
  /// Complexity: O(n).
  public var folded: String {
    var copy = self
    return copy.withUTF8 { utf8 in
      String(decoding: FoldedForm.folded(unsafe RawSpan(_unsafeElements: utf8)), as: UTF8.self)
    }
  }
}
