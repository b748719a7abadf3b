/// The character data of `NormalFormData`, as a table for lookups.
///
///     scalar >> 7  ->  page        a page has 128 numbers of entries
///     page, scalar & 0x7f  ->  entry        number 0: a starter that nothing changes
///     entry  ->  class, decomposition, whether the quick check may pass over it
///
/// The table is created at its first use, in less than a millisecond, and takes about 60 KiB. It is then immutable: any
/// thread may read it.
final class NormalFormTable: Sendable {
  static let shared = NormalFormTable()

  struct Entry {
    /// The position of the decomposition, and its number of scalars.
    var start: UInt16 = 0
    var count: UInt8 = 0
    var combiningClass: UInt8 = 0
    /// Whether the quick check succeeds: normal form C keeps the scalar unchanged, and it composes with no scalar
    /// before it.
    var isStable = true
  }

  private static let pageBits: UInt32 = 7
  /// The first scalar from which on no scalar has an entry.
  private static let end: UInt32 = 0x3_0000

  private let pages: [UInt16]
  private let numbers: [UInt16]
  private let entries: [Entry]
  private let scalars: [UInt32]
  private let composites: [UInt64: UInt32]

  @inline(__always)
  func entry(of scalar: UInt32) -> Entry {
    guard scalar < Self.end else { return Entry() }
    let page = Int(pages[Int(scalar >> Self.pageBits)])
    return entries[Int(numbers[page << Int(Self.pageBits) | Int(scalar & 0x7f)])]
  }

  func decomposition(_ entry: Entry) -> ArraySlice<UInt32> {
    scalars[Int(entry.start)..<Int(entry.start) + Int(entry.count)]
  }

  /// Returns the composition of two scalars, or nil if there is none.
  func composite(_ first: UInt32, _ second: UInt32) -> UInt32? { composites[Self.pair(first, second)] }

  private static func pair(_ first: UInt32, _ second: UInt32) -> UInt64 { UInt64(first) << 32 | UInt64(second) }

  // MARK: - Building the table

  private init() {
    var builder = Builder()
    builder.addClasses()
    builder.addDecompositions(NormalFormData.excluded, isStable: false)
    builder.addDecompositions(NormalFormData.composing, isStable: true)
    builder.addComposites()
    for scalar in Hangul.vowels { builder.entries[scalar, default: Entry()].isStable = false }
    for scalar in Hangul.trailing { builder.entries[scalar, default: Entry()].isStable = false }

    // Page 0 has no entries; entry 0 is used for all scalars without one.
    var pages = [UInt16](repeating: 0, count: Int(Self.end >> Self.pageBits))
    var numbers = [UInt16](repeating: 0, count: 1 << Self.pageBits)
    var entries = [Entry()]
    for (scalar, entry) in builder.entries {
      let index = Int(scalar >> Self.pageBits)
      if pages[index] == 0 {
        pages[index] = UInt16(numbers.count >> Int(Self.pageBits))
        numbers.append(contentsOf: repeatElement(0, count: 1 << Self.pageBits))
      }
      numbers[Int(pages[index]) << Int(Self.pageBits) | Int(scalar & 0x7f)] = UInt16(entries.count)
      entries.append(entry)
    }
    self.pages = pages
    self.numbers = numbers
    self.entries = entries
    scalars = builder.scalars
    composites = builder.composites
  }

  private struct Builder {
    var entries: [UInt32: Entry] = [:]
    var scalars: [UInt32] = []
    var composites: [UInt64: UInt32] = [:]
    /// The full decompositions of the scalars to which their decompositions compose again.
    private var composing: [(scalar: UInt32, parts: [UInt32])] = []

    mutating func addClasses() {
      for run in Builder.runs(NormalFormData.classes) {
        let pieces = run.split(separator: UInt8(ascii: ":"))
        let bounds = pieces[0].split(separator: UInt8(ascii: "-")).map(Builder.number)
        for scalar in bounds[0]...bounds[bounds.count - 1] {
          entries[scalar, default: Entry()].combiningClass = UInt8(Builder.number(pieces[1]))
        }
      }
    }

    mutating func addDecompositions(_ text: StaticString, isStable: Bool) {
      for run in Builder.runs(text) {
        let pieces = run.split(separator: UInt8(ascii: ":"))
        var scalar = Builder.number(pieces[0])
        for decomposition in pieces[1].split(separator: UInt8(ascii: ",")) {
          let parts = decomposition.split(separator: UInt8(ascii: "+")).map(Builder.number)
          var entry = entries[scalar] ?? Entry()
          entry.start = UInt16(scalars.count)
          entry.count = UInt8(parts.count)
          entry.isStable = isStable
          entries[scalar] = entry
          scalars += parts
          if isStable { composing.append((scalar, parts)) }
          scalar += 1
        }
      }
    }

    /// Adds the last step of each composition: all scalars of a full decomposition except the last compose to the first
    /// scalar of the pair. Shorter decompositions come first, so that the compositions of their beginnings are known.
    mutating func addComposites() {
      for (scalar, parts) in composing.sorted(by: { $0.parts.count < $1.parts.count }) {
        var first = parts[0]
        for part in parts[1..<(parts.count - 1)] {
          guard let composite = composites[pair(first, part)] else {
            // The data is part of the program, and a test reads all of it, so no input leads here.
            fatalError("the data of normal form C has no composition for a beginning of \(scalar): restore the file")
          }
          first = composite
        }
        let last = parts[parts.count - 1]
        composites[pair(first, last)] = scalar
        entries[last, default: Entry()].isStable = false
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
}
