import EngineTestSupport
import Testing

@testable import UnicodeNormalForm
@testable import Varve

/// Tests of normal form C against the standard library: a form is right if the library considers it to be in normal
/// form C, and equal to the original.
struct NormalFormTests {
  /// Returns whether the standard library finds a form of `string` wrong, or whether the quick check contradicts it.
  private func isWrong(_ string: String) -> Bool {
    let bytes = Array(string.utf8)
    let form = NormalForm.composed(bytes.rawSpan)
    let composed = String(decoding: form, as: UTF8.self)
    let isForm = form == bytes
    return composed != string || !Self.isNormalFormC(composed, true) || Self.isNormalFormC(string, isForm) != isForm
      || NormalForm.isEqual(bytes.rawSpan) != isForm || (NormalForm.isComposed(bytes.rawSpan) && !isForm)
  }

  /// Returns the standard library's answer, or `expected` if the library is too old to have one.
  private static func isNormalFormC(_ string: String, _ expected: Bool) -> Bool {
    guard #available(macOS 26.0, iOS 26.0, watchOS 26.0, tvOS 26.0, visionOS 26.0, *) else { return expected }
    var span = string.utf8Span
    return span.checkForNFC(quickCheck: false)
  }

  /// Returns whether a character is known to Unicode 17. Later ones are left unchanged; the library may know more.
  private static func isKnown(_ scalar: Unicode.Scalar) -> Bool {
    guard let age = scalar.properties.age else { return true }
    return age.major <= 17
  }

  private static let scalars = (UInt32(0)...0x10_ffff).compactMap(Unicode.Scalar.init).filter(isKnown)

  /// The scalars that a form may change or reorder: those with a decomposition, a class, or a composition.
  private static let special = scalars.filter { scalar in
    let entry = NormalFormTable.shared.entry(of: scalar.value)
    return (entry.count > 0 || entry.combiningClass > 0 || !entry.isStable) && !misunderstood.contains(scalar)
  }

  /// Vowel signs of class 0 that decompose to marks of other classes.
  ///
  /// The standard library (Swift 6.3) does not sort those marks among the ones before the sign, so it finds strings
  /// unequal that are equivalent according to Unicode.
  private static let misunderstood: [Unicode.Scalar] = ["\u{f73}", "\u{f75}", "\u{f81}"]

  @Test func `each scalar alone has the form that the standard library finds`() {
    let special = Set(Self.special)
    let wrong = Self.scalars.filter { scalar in
      let string = String(scalar)
      if special.contains(scalar) { return isWrong(string) }
      // For all other scalars, only the absence of changes is checked.
      let isComposed = NormalForm.isComposed(Array(string.utf8).rawSpan)
      return !Self.misunderstood.contains(scalar) && (!isComposed || !Self.isNormalFormC(string, true))
    }
    #expect(wrong.isEmpty, "\(wrong.prefix(10).map { String($0.value, radix: 16) })")
  }

  @Test func `the combining classes are those of the standard library`() {
    let wrong = Self.scalars.filter {
      NormalFormTable.shared.entry(of: $0.value).combiningClass != $0.properties.canonicalCombiningClass.rawValue
    }
    #expect(wrong.isEmpty, "\(wrong.prefix(10).map { String($0.value, radix: 16) })")
  }

  @Test func `each special scalar between a letter and marks has the form that the standard library finds`() {
    let frames: [(String, String)] = [
      ("e", ""), ("e", "\u{301}"), ("", "\u{323}"), ("\u{327}", ""), ("a\u{302}", "\u{323}"), ("", "\u{338}"),
      ("\u{1100}", "\u{11a8}"), ("\u{345}", "\u{301}"),
    ]
    var wrong: [String] = []
    for scalar in Self.special {
      for (before, after) in frames where isWrong(before + String(scalar) + after) {
        wrong.append("\(before.unicodeScalars.map(\.value)) \(scalar.value) \(after.unicodeScalars.map(\.value))")
      }
    }
    #expect(Self.special.count > 3_000)
    #expect(wrong.isEmpty, "\(wrong.prefix(10))")
  }

  @Test func `every composition is formed, except for the characters that are excluded`() {
    var compositions = 0
    for scalar in Self.special {
      let entry = NormalFormTable.shared.entry(of: scalar.value)
      guard entry.count > 0 else { continue }
      var view = String.UnicodeScalarView()
      view.append(contentsOf: NormalFormTable.shared.decomposition(entry).compactMap(Unicode.Scalar.init))
      let parts = Array(String(view).utf8)
      let form = String(decoding: NormalForm.composed(parts.rawSpan), as: UTF8.self)
      #expect(form == String(scalar) && !isWrong(String(view)))
      if form.unicodeScalars.elementsEqual([scalar]) { compositions += 1 }
    }
    #expect(compositions == 961)
  }

  @Test func `every Hangul syllable comes back from its jamo`() {
    var wrong: [UInt32] = []
    for value in UInt32(0xac00)...0xd7a3 {
      guard let syllable = Hangul(value), let scalar = Unicode.Scalar(value) else { continue }
      var view = String.UnicodeScalarView()
      syllable.forEachJamo { if let jamo = Unicode.Scalar($0) { view.append(jamo) } }
      let jamo = Array(String(view).utf8)
      if NormalForm.composed(jamo.rawSpan) != Array(String(scalar).utf8) || isWrong(String(view)) {
        wrong.append(value)
      }
    }
    #expect(wrong.isEmpty, "\(wrong.prefix(10))")
    #expect(Hangul(0xabff) == nil && Hangul(0xd7a4) == nil)
  }

  @Test(arguments: [1, 2, 3] as [UInt64])
  func `any sequence of special scalars has the form that the standard library finds`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    for _ in 0..<20_000 {
      var view = String.UnicodeScalarView()
      for _ in 0..<random.below(10) {
        let scalars = random.oneIn(4) ? Self.scalars : Self.special
        let scalar = scalars[random.below(scalars.count)]
        if !Self.misunderstood.contains(scalar) { view.append(scalar) }
      }
      let string = String(view)
      guard !isWrong(string) else {
        Issue.record("seed \(seed): \(view.map { String($0.value, radix: 16) })")
        return
      }
    }
    #expect(!isWrong(String(repeating: "e\u{302}\u{323}", count: 1_000)))
  }

  @Test func `marks of a vowel sign of class 0 are sorted among the marks before it`() {
    for sign in Self.misunderstood {
      let entry = NormalFormTable.shared.entry(of: sign.value)
      #expect(entry.count == 2 && entry.combiningClass == 0 && !entry.isStable)
      let parts = String(
        String.UnicodeScalarView(NormalFormTable.shared.decomposition(entry).compactMap(Unicode.Scalar.init)))
      let form = NormalForm.composed(Array("\u{327}\(sign)".utf8).rawSpan)
      #expect(form == Array((parts + "\u{327}").utf8))
    }
  }

  @Test func `many marks in a row are sorted by class, and keep their order within a class`() {
    var random = SeededRandom(seed: 7)
    let marks = Self.special.filter { $0.properties.canonicalCombiningClass != .notReordered }
    var view = String.UnicodeScalarView("e".unicodeScalars)
    for _ in 0..<3_000 { view.append(marks[random.below(marks.count)]) }
    #expect(!isWrong(String(view)))
  }
}
