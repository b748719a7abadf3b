/// Normal form C of Unicode (UAX 15) over UTF-8: strings that are equal in Swift have the same form, and the bytes of
/// two forms compare as the forms do by `<`.
///
/// The character data is that of Unicode 17 on every system (`NormalFormData`). Strings with newer characters can be
/// keys, too; only their equality with another string may differ between this module and a later standard library.
///
/// Keys deviate from the standard library (Swift 6.3) where it deviates from Unicode:
/// - Its `<` is not an order among strings that are not in normal form C: of "e\u{301}" and "\u{e9}z", neither is less.
///   Keys are sorted by their forms, so equal strings have the same position.
/// - It does not sort the marks to which U+0f73, U+0f75 and U+0f81 decompose among the marks before them. A string with
///   one of these after a mark of a higher class is decoded to a form that is canonically equivalent, but not `==`.
///
/// All functions require valid UTF-8.
package enum NormalForm {
  /// Returns whether the bytes are certainly in normal form C. False may also mean that it is not certain (the quick
  /// check of UAX 15).
  ///
  /// *Complexity*: O(bytes), without an allocation.
  package static func isComposed(_ utf8: RawSpan) -> Bool {
    let table = NormalFormTable.shared
    var lastClass: UInt8 = 0
    var index = 0
    while index < utf8.byteCount {
      let lead = utf8.byte(at: index)
      // Scalars below U+0300 (first byte 0xcc), of one or two bytes, and those from U+4000 to U+9fff are always stable.
      if lead < 0xcc || (lead >= 0xe4 && lead <= 0xe9) {
        index &+= lead < 0xcc ? 1 &+ Int(lead >> 7) : 3
        lastClass = 0
        continue
      }
      let entry = table.entry(of: scalar(utf8, &index, lead))
      if !entry.isStable || (entry.combiningClass != 0 && entry.combiningClass < lastClass) { return false }
      lastClass = entry.combiningClass
    }
    return true
  }

  /// Returns whether the bytes are in normal form C.
  package static func isEqual(_ utf8: RawSpan) -> Bool {
    let form = composed(utf8)
    return form.count == utf8.byteCount && form.indices.allSatisfy { form[$0] == utf8.byte(at: $0) }
  }

  /// Returns the bytes in normal form C.
  ///
  /// *Complexity*: O(n log n) for n consecutive marks, and otherwise O(bytes).
  package static func composed(_ utf8: RawSpan) -> [UInt8] {
    let table = NormalFormTable.shared
    var marks = decomposed(utf8, table)
    sortMarks(&marks)
    var bytes: [UInt8] = []
    bytes.reserveCapacity(utf8.byteCount)
    for scalar in composition(of: marks, table) { append(scalar, to: &bytes) }
    return bytes
  }

  /// Calls `body` with each scalar of the canonical decomposition. The order of consecutive marks is not defined.
  static func forEachDecomposed(_ utf8: RawSpan, _ body: (UInt32) -> Void) {
    for mark in decomposed(utf8, NormalFormTable.shared) { body(mark.scalar) }
  }

  // MARK: - Steps

  /// A decomposed scalar, ordered by its class and then by its position, so that sorting marks is stable.
  private struct Mark: Comparable {
    /// From the high bits: 8 bits of class, 32 of position, 3 of which the lowest marks a scalar that may compose, and
    /// 21 of the scalar.
    let bits: UInt64

    init(_ scalar: UInt32, _ entry: NormalFormTable.Entry, _ location: Int) {
      let location = UInt64(UInt32(truncatingIfNeeded: location)) << 24
      bits = UInt64(entry.combiningClass) << 56 | location | (entry.isStable ? 0 : 1 << 21) | UInt64(scalar)
    }

    var scalar: UInt32 { UInt32(truncatingIfNeeded: bits & 0x1f_ffff) }
    var combiningClass: UInt8 { UInt8(truncatingIfNeeded: bits >> 56) }
    /// Whether the scalar may compose with one before it.
    var mayCompose: Bool { bits & (1 << 21) != 0 }
    static func < (left: Mark, right: Mark) -> Bool { left.bits < right.bits }
  }

  private static func decomposed(_ utf8: RawSpan, _ table: NormalFormTable) -> [Mark] {
    var marks: [Mark] = []
    marks.reserveCapacity(utf8.byteCount)
    var index = 0
    while index < utf8.byteCount {
      let scalar = scalar(utf8, &index, utf8.byte(at: index))
      if let syllable = Hangul(scalar) {
        syllable.forEachJamo { marks.append(Mark($0, table.entry(of: $0), marks.count)) }
        continue
      }
      let entry = table.entry(of: scalar)
      if entry.count == 0 {
        marks.append(Mark(scalar, entry, marks.count))
      } else {
        for part in table.decomposition(entry) {
          marks.append(Mark(part, table.entry(of: part), marks.count))
        }
      }
    }
    return marks
  }

  /// Sorts each run of marks by class, which is the canonical order.
  private static func sortMarks(_ marks: inout [Mark]) {
    var start = 0
    while start < marks.count {
      guard marks[start].combiningClass != 0 else {
        start += 1
        continue
      }
      var end = start + 1
      var isSorted = true
      while end < marks.count, marks[end].combiningClass != 0 {
        if marks[end].combiningClass < marks[end - 1].combiningClass { isSorted = false }
        end += 1
      }
      if !isSorted { marks[start..<end].sort() }
      start = end
    }
  }

  /// Composes each mark with the starter before it, unless a mark of the same or a higher class is in between.
  private static func composition(of marks: [Mark], _ table: NormalFormTable) -> [UInt32] {
    var scalars: [UInt32] = []
    scalars.reserveCapacity(marks.count)
    var starter: Int?
    // The class of the last scalar after the starter, or 0 if there is none.
    var lastClass: UInt8 = 0
    for mark in marks {
      let combiningClass = mark.combiningClass
      if mark.mayCompose, let location = starter, lastClass == 0 || lastClass < combiningClass,
        let composite = Hangul.composite(scalars[location], mark.scalar)
          ?? table.composite(scalars[location], mark.scalar)
      {
        scalars[location] = composite
        continue
      }
      if combiningClass == 0 { starter = scalars.count }
      lastClass = combiningClass
      scalars.append(mark.scalar)
    }
    return scalars
  }

  // MARK: - UTF-8

  /// Returns the scalar at `index`, whose first byte is `lead`, and advances `index`.
  @inline(__always)
  private static func scalar(_ utf8: RawSpan, _ index: inout Int, _ lead: UInt8) -> UInt32 {
    func next(_ offset: Int) -> UInt32 { UInt32(utf8.byte(at: index &+ offset) & 0x3f) }
    let scalar: UInt32
    switch lead {
    case ..<0x80:
      scalar = UInt32(lead)
      index &+= 1
    case ..<0xe0:
      scalar = UInt32(lead & 0x1f) << 6 | next(1)
      index &+= 2
    case ..<0xf0:
      scalar = UInt32(lead & 0x0f) << 12 | next(1) << 6 | next(2)
      index &+= 3
    default:
      scalar = UInt32(lead & 0x07) << 18 | next(1) << 12 | next(2) << 6 | next(3)
      index &+= 4
    }
    return scalar
  }

  static func append(_ scalar: UInt32, to bytes: inout [UInt8]) {
    func add(_ shift: UInt32, _ mask: UInt8, _ lead: UInt8) {
      bytes.append(UInt8(truncatingIfNeeded: scalar >> shift) & mask | lead)
    }
    switch scalar {
    case ..<0x80: add(0, 0x7f, 0)
    case ..<0x800: add(6, 0x1f, 0xc0)
    case ..<0x1_0000: add(12, 0x0f, 0xe0)
    default: add(18, 0x07, 0xf0)
    }
    if scalar >= 0x1_0000 { add(12, 0x3f, 0x80) }
    if scalar >= 0x800 { add(6, 0x3f, 0x80) }
    if scalar >= 0x80 { add(0, 0x3f, 0x80) }
  }
}

extension RawSpan {
  /// Returns the byte at `offset`. Stops the process if it is out of bounds, which callers have to check.
  @inline(__always)
  func byte(at offset: Int) -> UInt8 {
    // Safety: the load checks the offset against the count, and every byte is a valid `UInt8`.
    unsafe unsafeLoad(fromByteOffset: offset, as: UInt8.self)
  }
}
