/// What the catalog says of an extension.
///
/// ```
///  byte 0        format of this record, 1
///  bytes 1–4     number, big-endian: never given twice; order of first registration
///  byte 5        state: 1 building, 2 ready, 3 stale
///  bytes 6–9     layout version, big-endian
///  4 + n bytes   version tag: size big-endian, UTF-8
///  4 + n bytes   only while building: the watermark, a key of the walk below
///  16 bytes      only where stale, and where it can be told: what it has heard of (`FeedPosition`)
/// ```
/// On disk: never change. The watermark is the collection's id, big-endian, and the key of the last row that
/// was given to the extension: rows behind it are not maintained yet.
package struct ExtensionRecord: Hashable, Sendable {
  package enum State: Hashable, Sendable {
    case building(watermark: [UInt8])
    case ready
    /// It missed what the feed has from there on; nil: it can't be told what it missed, and it has to be built anew.
    case stale(FeedPosition?)

    var isStale: Bool { if case .stale = self { true } else { false } }
  }

  package var number: UInt32
  package var state: State
  package var layoutVersion: UInt32
  var versionTag: String

  var bytes: [UInt8] {
    let tag = Array(versionTag.utf8)
    var code: UInt8 = 2
    var rest: [UInt8] = []
    switch state {
    case .building(let reached):
      code = 1
      rest = BigEndian.bytes(UInt32(reached.count)) + reached
    case .ready: code = 2
    case .stale(let position):
      code = 3
      rest = position?.bytes ?? []
    }
    return [1] + BigEndian.bytes(number) + [code] + BigEndian.bytes(layoutVersion)
      + BigEndian.bytes(UInt32(tag.count)) + tag + rest
  }

  init(number: UInt32, state: State, layoutVersion: UInt32, versionTag: String) {
    self.number = number
    self.state = state
    self.layoutVersion = layoutVersion
    self.versionTag = versionTag
  }

  package init(_ bytes: [UInt8], name: String) throws {
    let damaged = DatabaseError(.corruption, "the catalog's record of extension \"\(name)\" is damaged")
    guard let format = bytes.first, let number = BigEndian.number(bytes, at: 1, as: UInt32.self), bytes.count >= 14,
      let layout = BigEndian.number(bytes, at: 6, as: UInt32.self),
      let tagSize = BigEndian.number(bytes, at: 10, as: UInt32.self), bytes.count - 14 >= Int(tagSize)
    else { throw damaged }
    guard format == 1 else {
      throw DatabaseError(.unsupportedVersion, "the record of extension \"\(name)\" has format \(format)")
    }
    guard let tag = String(validating: bytes[14..<(14 + Int(tagSize))], as: UTF8.self) else { throw damaged }
    let rest = Array(bytes[(14 + Int(tagSize))...])
    let state: State
    switch (bytes[5], BigEndian.number(rest, as: UInt32.self)) {
    case (1, let size?) where rest.count == 4 + Int(size): state = .building(watermark: Array(rest[4...]))
    case (2, nil) where rest.isEmpty: state = .ready
    case (3, nil) where rest.isEmpty: state = .stale(nil)
    case (3, _) where rest.count == FeedPosition.size:
      guard let position = FeedPosition(rest) else { throw damaged }
      state = .stale(position)
    default: throw damaged
    }
    self.init(number: number, state: state, layoutVersion: layout, versionTag: tag)
  }

  /// The tags that it was made with: its own, and those of all that it depends on, as `name=tag`.
  package var tags: [String] {
    versionTag.split(separator: Self.tagSeparator, omittingEmptySubsequences: false).map(String.init)
  }

  static let tagSeparator: Character = "\u{1F}"

  /// Whether it was made with an extension of this name as a dependency, direct or not.
  func depends(on name: String) -> Bool { tags.dropFirst().contains { $0.hasPrefix(name + "=") } }

  /// The name of the family that holds a part of what the extension keeps.
  func familyName(_ part: String, isVolatile: Bool) -> String {
    Self.familyPrefix(number, isVolatile: isVolatile) + part
  }

  /// What the names of volatile families begin with.
  package static let volatilePrefix = "volatile."

  /// What the names of an extension's families begin with. Volatile ones have names of their own, so that an
  /// extension that becomes persistent doesn't find its data in families that are emptied.
  static func familyPrefix(_ number: UInt32, isVolatile: Bool) -> String {
    (isVolatile ? volatilePrefix : "") + "x.\(number)."
  }

  /// The number of the extension that a family belongs to; nil for a family of none.
  static func number(ofFamily name: String) -> UInt32? {
    let parts = name.split(separator: ".", omittingEmptySubsequences: false)
    let rest = parts.first == "volatile" ? parts.dropFirst() : parts[...]
    guard rest.count >= 3, rest.first == "x" else { return nil }
    return rest.dropFirst().first.flatMap { UInt32($0) }
  }
}
