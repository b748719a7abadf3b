/// What the catalog says of an extension.
///
/// ```
///  byte 0        format of this record, 2
///  bytes 1–4     number, big-endian: never given twice; order of first registration
///  byte 5        state: 1 building, 2 ready, 3 stale
///  bytes 6–9     layout version, big-endian
///  4 + n bytes   version tag: size big-endian, UTF-8
///  4 + n bytes   kind: size big-endian, UTF-8
///  4 + n bytes   scope: size big-endian, UTF-8 (`CollectionScope.recordText`)
///  4 + n bytes   only while building: the watermark, the place of a row, see below
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
  /// What kind of extension keeps it: another kind under the same name is an error.
  package var kind: String
  /// The collections whose rows it was built from.
  var scope: String

  var bytes: [UInt8] {
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
    return [2] + BigEndian.bytes(number) + [code] + BigEndian.bytes(layoutVersion)
      + Self.field(versionTag) + Self.field(kind) + Self.field(scope) + rest
  }

  private static func field(_ text: String) -> [UInt8] {
    BigEndian.bytes(UInt32(text.utf8.count)) + Array(text.utf8)
  }

  init(number: UInt32, state: State, layoutVersion: UInt32, versionTag: String, kind: String, scope: String) {
    self.number = number
    self.state = state
    self.layoutVersion = layoutVersion
    self.versionTag = versionTag
    self.kind = kind
    self.scope = scope
  }

  /// The record of an extension with such traits. `versionTag` has the versions of its dependencies too.
  init(number: UInt32, state: State, _ traits: ExtensionTraits, versionTag: String) {
    self.init(
      number: number, state: state, layoutVersion: traits.layoutVersion, versionTag: versionTag, kind: traits.kind,
      scope: traits.scope.recordText)
  }

  package init(_ bytes: [UInt8], name: String) throws {
    let damaged = DatabaseError(.corruption, "the catalog's record of extension \"\(name)\" is damaged")
    guard let format = bytes.first else { throw damaged }
    guard format == 2 else {
      throw DatabaseError(
        .unsupportedVersion, "the record of extension \"\(name)\" has format \(format); this version reads 2")
    }
    guard let number = BigEndian.number(bytes, at: 1, as: UInt32.self), bytes.count >= 10,
      let layout = BigEndian.number(bytes, at: 6, as: UInt32.self)
    else { throw damaged }
    var offset = 10
    func text() throws -> String {
      guard let size = BigEndian.number(bytes, at: offset, as: UInt32.self), bytes.count - offset - 4 >= Int(size),
        let text = String(validating: bytes[(offset + 4)..<(offset + 4 + Int(size))], as: UTF8.self)
      else { throw damaged }
      offset += 4 + Int(size)
      return text
    }
    let tag = try text()
    let kind = try text()
    let scope = try text()
    let rest = Array(bytes[offset...])
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
    self.init(number: number, state: state, layoutVersion: layout, versionTag: tag, kind: kind, scope: scope)
  }

  /// The tags that it was made with: its own, and those of all that it depends on, as `name=tag`.
  package var tags: [String] {
    versionTag.split(separator: Self.tagSeparator, omittingEmptySubsequences: false).map(String.init)
  }

  /// Throws `.extensionMismatch` where it is of another kind.
  func requireKind(_ other: String, _ name: String) throws {
    guard kind == other else {
      throw DatabaseError(
        .extensionMismatch,
        "\"\(name)\" is an extension of kind \"\(kind)\" on disk, and of kind \"\(other)\" in the program; "
          + "unregister it, or register the other kind by another name")
    }
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
