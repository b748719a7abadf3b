/// Folds strings to a form without case and diacritical marks, for searches that ignore both: "Émile" and "EMILE" have
/// the same form.
///
/// A string is decomposed canonically, and combining marks of the blocks for letters are removed (U+0300 to U+036F,
/// U+1AB0 to U+1AFF, U+1DC0 to U+1DFF, U+20D0 to U+20FF, U+FE20 to U+FE2F). Each scalar is replaced by the lowercase of
/// its uppercase, and the result is composed again. Marks that are letters of their scripts, such as vowels of
/// Devanagari, are kept, and so are letters with a stroke, which do not decompose.
package enum FoldedForm {
  /// The version of Unicode that defines the form.
  package static var version: Int { 17 }

  /// Returns the form of valid UTF-8. Complexity: O(n).
  package static func folded(_ utf8: RawSpan) -> [UInt8] {
    let table = FoldedFormTable.shared
    var bytes: [UInt8] = []
    bytes.reserveCapacity(utf8.byteCount)
    var isASCII = true
    for index in 0..<utf8.byteCount {
      let byte = utf8.byte(at: index)
      if byte >= 0x80 {
        isASCII = false
        break
      }
      bytes.append(byte >= 0x41 && byte <= 0x5a ? byte | 0x20 : byte)
    }
    if isASCII { return bytes }
    bytes.removeAll(keepingCapacity: true)
    NormalForm.forEachDecomposed(utf8) { scalar in
      if isMark(scalar) { return }
      guard let list = table.lists[scalar] else {
        return NormalForm.append(table.singles[scalar] ?? scalar, to: &bytes)
      }
      for scalar in list where !isMark(scalar) { NormalForm.append(scalar, to: &bytes) }
    }
    return unsafe NormalForm.composed(bytes.span.bytes)
  }

  private static func isMark(_ scalar: UInt32) -> Bool {
    switch scalar {
    case 0x300...0x36f, 0x1ab0...0x1aff, 0x1dc0...0x1dff, 0x20d0...0x20ff, 0xfe20...0xfe2f: true
    default: false
    }
  }
}

/// The data of folding, which is parsed once.
private struct FoldedFormTable: Sendable {
  var singles: [UInt32: UInt32] = [:]
  var lists: [UInt32: [UInt32]] = [:]

  static let shared = FoldedFormTable()

  private init() {
    for run in Self.runs(FoldedFormData.singles) {
      let pieces = run.split(separator: UInt8(ascii: ":"))
      let numbers = pieces[0].split(separator: UInt8(ascii: ",")).map(Self.number)
      let to = Self.number(pieces[1])
      for index in 0..<numbers[1] { singles[numbers[0] + index * numbers[2]] = to + index * numbers[2] }
    }
    for run in Self.runs(FoldedFormData.lists) {
      let pieces = run.split(separator: UInt8(ascii: ":"))
      lists[Self.number(pieces[0])] = pieces[1].split(separator: UInt8(ascii: "+")).map(Self.number)
    }
  }

  private static func runs(_ text: StaticString) -> [ArraySlice<UInt8>] {
    // Safety: the buffer is copied within the call.
    let bytes = text.withUTF8Buffer { unsafe Array($0) }
    return bytes.split(separator: UInt8(ascii: " "))
  }

  /// Parses a number in lowercase hexadecimal digits.
  private static func number(_ digits: ArraySlice<UInt8>) -> UInt32 {
    digits.reduce(0) { $0 << 4 | UInt32($1 < 0x3a ? $1 - 0x30 : $1 - 0x57) }
  }
}
