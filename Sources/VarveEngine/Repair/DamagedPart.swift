/// A part of a damaged database that could not be read, as a repair or a salvage reports it.
public struct DamagedPart: Sendable, Hashable, CustomStringConvertible {
  /// The file.
  public var file: String
  /// The bytes of the file, or `nil` if the file is missing.
  public var offsets: Range<UInt64>?
  /// The damage found.
  public var message: String
  /// The column family whose entries were there, if it is known.
  public var family: String?
  /// The last readable key before the lost part, if the order of the file determines it.
  public var keyBefore: [UInt8]?
  /// The first readable key after the lost part.
  public var keyAfter: [UInt8]?
  /// The sequences of the entries that were there, as far as they can be determined.
  public var sequences: ClosedRange<SequenceNumber>?
  /// A Boolean value that indicates whether entries may be lost with the part. If false, its content is known from
  /// elsewhere.
  public var holdsEntries = true

  /// The text `FILE:FROM-TO: message; family "f", keys between "a" and "b", commits 3 to 9`.
  public var description: String {
    var text = file
    if let offsets { text += ":\(offsets.lowerBound)-\(offsets.upperBound)" }
    text += ": \(message)"
    guard holdsEntries else { return text + "; no entry is lost with it" }
    if let family { text += "; column family \"\(family)\"" }
    switch (keyBefore, keyAfter) {
    case (nil, nil): break
    case (let before?, nil): text += ", keys above \(before.printable)"
    case (nil, let later?): text += ", keys below \(later.printable)"
    case (let before?, let later?): text += ", keys between \(before.printable) and \(later.printable)"
    }
    if let sequences { text += ", commits \(sequences.lowerBound) to \(sequences.upperBound)" }
    return text
  }

  init(_ message: String, file: String, offsets: Range<UInt64>? = nil) {
    self.message = message
    self.file = file
    self.offsets = offsets
  }

  init(_ part: UnreadablePart, file: String, family: String? = nil) {
    self.init(part.message, file: file, offsets: part.start..<max(part.start, part.end))
    self.family = family
    keyBefore = part.keyBefore
    keyAfter = part.keyAfter
    holdsEntries = part.holdsEntries
  }

  /// Creates a part for a table of which no entry can be read.
  init(_ message: String, wholeTable table: TableMetadata, file: String, family: String) {
    self.init(message, file: file)
    self.family = family
    keyBefore = table.smallestKey
    keyAfter = table.largestKey
    sequences = table.smallestSequence...table.largestSequence
  }
}

extension [UInt8] {
  fileprivate var printable: String { withByteView { $0.printable } }
}
