/// What the catalog says of an extension.
///
/// ```
///  byte 0        format of this record, 5
///  bytes 1–4     number, big-endian: never given twice; order of first registration
///  byte 5        state: 1 building, 2 ready, 3 stale, 4 failed, 5 ingesting
///  bytes 6–9     layout, big-endian
///  bytes 10–13   generation, big-endian: which set of families has its parts
///  4 + n bytes   version, and those of what it depends on: size big-endian, UTF-8
///  4 + n bytes   kind: size big-endian, UTF-8
///  4 + n bytes   scope: size big-endian, UTF-8 (`CollectionScope.recordText`)
///  byte          how many parts follow, at most 64
///    4 + n bytes name: size big-endian, UTF-8
///    4 + n bytes version: size big-endian, UTF-8
///    byte        form: 0 values, 1 counters that are added up, 2 counters that keep the maximum, 3 write-once,
///                4 append-only, 5 scratch
///    byte        bit 0 volatile, bit 1 being built, bit 2 not made of rows; the others are zero
///    4 + n bytes only while it is built: its watermark
///  4 + n bytes   the record of what is built to replace it, which has none; without one no byte
///  4 + n bytes   only in the state building: the lowest watermark of the parts
///  4 + n bytes   only where failed: what the extension threw, as text: size big-endian, UTF-8
///  16 bytes      only where stale, and where it is known: what it has received (`FeedPosition`)
///  16 bytes      only in the state ingesting: the position in the feed after which changes are delivered to it
///  4 bytes       only in the state ingesting: how many runs have what it was given, big-endian, at least 1
///  4 + n bytes   only in the state ingesting: the watermark of the last run
/// ```
/// On disk: never change. A watermark is the collection's id, big-endian, and the key of the last row that was given:
/// rows after it are not maintained yet. In the state ingesting the watermarks of the parts are empty, because these have
/// nothing: what was given is in the families of the runs (`spillFamilyName`).
package struct ExtensionRecord: Hashable, Sendable {
  package enum State: Hashable, Sendable {
    case building(watermark: [UInt8])
    /// It is built by tables (`IngestedBuild`), and families have runs of what it was given.
    case ingesting(IngestionMark)
    case ready
    /// It missed what the feed has from there on; nil: it is not known what it missed, and it has to be built again.
    case stale(FeedPosition?)
    /// Its build ended with an error of its own, and it keeps nothing.
    case failed(String)

    /// Whether a change that it misses would matter to it.
    var isUpToDate: Bool {
      switch self {
      case .building, .ready: true
      // The feed tells it.
      case .ingesting, .stale, .failed: false
      }
    }

    var isFailed: Bool { if case .failed = self { true } else { false } }
    var isIngesting: Bool { if case .ingesting = self { true } else { false } }
    var isStale: Bool { if case .stale = self { true } else { false } }
  }

  /// How far a build by tables is, where families have what was given.
  package struct IngestionMark: Hashable, Sendable {
    /// What changed from there on the feed tells.
    package var position: FeedPosition
    /// How many runs there are.
    package var runCount: UInt32
    /// The last row that was given.
    package var watermark: [UInt8]
  }

  /// A part, as it is on disk.
  package struct Part: Hashable, Sendable {
    package var name: String
    package var version: String
    let form: PartForm
    package var isVolatile: Bool
    /// Whether its content is made of rows.
    var isDerived = true
    /// The last row that was given to it; nil: it has all.
    package var watermark: [UInt8]?

    /// Whether builds give it rows, and empty it.
    var isBuilt: Bool { form != .scratch && isDerived }
  }

  package var number: UInt32
  package var state: State
  package var layout: UInt32
  var versionTag: String
  /// What kind of extension keeps it: another kind under the same name is an error.
  package var kind: String
  /// The collections whose rows it was built from.
  var scope: String
  /// In the order of the definition.
  package var parts: [Part] = []
  /// Which set of families has the parts. Another one with each definition that replaced another.
  package var generation: UInt32 = 0
  /// None or one.
  private var shadows: [ExtensionRecord] = []

  /// What is built to replace it: of the same number, with families of its own.
  package var shadow: ExtensionRecord? {
    get { shadows.first }
    set { shadows = newValue.map { [$0] } ?? [] }
  }

  /// The same without what is built to replace it.
  var alone: ExtensionRecord {
    var record = self
    record.shadows = []
    return record
  }

  // MARK: - Bytes

  var bytes: [UInt8] {
    var code: UInt8 = 2
    var rest: [UInt8] = []
    switch state {
    case .building(let watermark):
      code = 1
      rest = Self.field(watermark)
    case .ready: code = 2
    case .stale(let position):
      code = 3
      rest = position?.bytes ?? []
    case .failed(let message):
      code = 4
      rest = Self.field(Array(message.utf8))
    case .ingesting(let mark):
      code = 5
      rest = mark.position.bytes + BigEndian.bytes(mark.runCount) + Self.field(mark.watermark)
    }
    var bytes = [5] + BigEndian.bytes(number) + [code] + BigEndian.bytes(layout) + BigEndian.bytes(generation)
    for text in [versionTag, kind, scope] { bytes += Self.field(Array(text.utf8)) }
    bytes.append(UInt8(parts.count))
    for part in parts {
      bytes += Self.field(Array(part.name.utf8)) + Self.field(Array(part.version.utf8))
      bytes += [
        part.form.rawValue, (part.isVolatile ? 1 : 0) | (part.watermark == nil ? 0 : 2) | (part.isDerived ? 0 : 4),
      ]
      if let watermark = part.watermark { bytes += Self.field(watermark) }
    }
    return bytes + Self.field(shadow?.bytes ?? []) + rest
  }

  private static func field(_ content: [UInt8]) -> [UInt8] { BigEndian.bytes(UInt32(content.count)) + content }

  init(number: UInt32, state: State, layout: UInt32, versionTag: String, kind: String, scope: String) {
    self.number = number
    self.state = state
    self.layout = layout
    self.versionTag = versionTag
    self.kind = kind
    self.scope = scope
  }

  /// The record of an extension with such traits. `versionTag` has the versions of its dependencies too.
  init(number: UInt32, state: State, _ traits: ExtensionTraits, versionTag: String) {
    self.init(
      number: number, state: state, layout: traits.configuration.layout, versionTag: versionTag, kind: traits.kind,
      scope: traits.scope.recordText)
    parts = traits.parts.map { Part($0) }
  }

  package init(_ bytes: [UInt8], name: String) throws { try self.init(bytes, name, mayHaveShadow: true) }

  private init(_ bytes: [UInt8], _ name: String, mayHaveShadow: Bool) throws {
    let damaged = DatabaseError(.corruption, "the catalog's record of extension \"\(name)\" is damaged")
    guard let format = bytes.first else { throw damaged }
    guard format == 5 else {
      throw DatabaseError(
        .unsupportedVersion, "the record of extension \"\(name)\" has format \(format); this version reads 5")
    }
    guard let number = BigEndian.number(bytes, at: 1, as: UInt32.self), bytes.count >= 14,
      let layout = BigEndian.number(bytes, at: 6, as: UInt32.self),
      let generation = BigEndian.number(bytes, at: 10, as: UInt32.self)
    else { throw damaged }
    var offset = 14
    func field() throws -> ArraySlice<UInt8> {
      guard let size = BigEndian.number(bytes, at: offset, as: UInt32.self), bytes.count - offset - 4 >= Int(size)
      else { throw damaged }
      defer { offset += 4 + Int(size) }
      return bytes[(offset + 4)..<(offset + 4 + Int(size))]
    }
    func text() throws -> String {
      guard let text = String(validating: try field(), as: UTF8.self) else { throw damaged }
      return text
    }
    func byte(atMost maximum: UInt8) throws -> UInt8 {
      guard offset < bytes.count, bytes[offset] <= maximum else { throw damaged }
      defer { offset += 1 }
      return bytes[offset]
    }
    self.init(
      number: number, state: .ready, layout: layout, versionTag: try text(), kind: try text(), scope: try text())
    self.generation = generation
    for _ in 0..<(try byte(atMost: UInt8(ExtensionTraits.partsMaximum))) {
      let (name, version) = (try text(), try text())
      guard let form = PartForm(rawValue: try byte(atMost: .max)) else { throw damaged }
      let flags = try byte(atMost: 7)
      parts.append(
        Part(
          name: name, version: version, form: form, isVolatile: flags & 1 != 0, isDerived: flags & 4 == 0,
          watermark: flags & 2 != 0 ? Array(try field()) : nil))
    }
    let shadowBytes = Array(try field())
    if !shadowBytes.isEmpty {
      guard mayHaveShadow else { throw damaged }
      let shadow = try ExtensionRecord(shadowBytes, name, mayHaveShadow: false)
      guard shadow.number == number, shadow.generation > generation else { throw damaged }
      shadows = [shadow]
    }
    switch bytes[5] {
    case 1: state = .building(watermark: Array(try field()))
    case 2: state = .ready
    case 3 where offset == bytes.count: state = .stale(nil)
    case 3:
      guard let position = FeedPosition(Array(bytes[offset...])) else { throw damaged }
      state = .stale(position)
      offset += FeedPosition.size
    case 4: state = .failed(try text())
    case 5:
      let end = offset + FeedPosition.size
      guard bytes.count >= end, let position = FeedPosition(Array(bytes[offset..<end])),
        let runCount = BigEndian.number(bytes, at: end, as: UInt32.self), runCount > 0
      else { throw damaged }
      offset = end + 4
      state = .ingesting(IngestionMark(position: position, runCount: runCount, watermark: Array(try field())))
    default: throw damaged
    }
    guard offset == bytes.count else { throw damaged }
  }

  // MARK: - Names

  /// The versions that it was made with: its own, and those of all that it depends on, as `name=version`.
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

  /// What those that depend on it are built from: its version, and a hash of its layout, its scope and its parts (FNV-1a
  /// of 64 bits). On disk, in their records: never change.
  var identity: String {
    var described = "\(layout)|\(scope)"
    for part in parts { described += "|\(part.name)|\(part.version)|\(part.form.rawValue)|\(part.isVolatile)" }
    return "\(versionTag)#\(String(FNV1a.hash(described), radix: 16))"
  }

  static let tagSeparator: Character = "\u{1F}"

  /// Whether it was made with an extension of this name as a dependency, direct or not.
  func depends(on name: String) -> Bool { tags.dropFirst().contains { $0.hasPrefix(name + "=") } }

  /// The name of the family that holds a part of what the extension keeps.
  package func familyName(_ part: Part) -> String {
    let name = Self.familyPrefix(number, generation, isVolatile: part.isVolatile && part.form != .scratch) + part.name
    return part.form == .scratch ? Self.scratchPrefix + name : name
  }

  /// What the names of volatile families begin with.
  package static let volatilePrefix = "volatile."
  /// What the names of families begin with that no commit writes to.
  package static let scratchPrefix = "scratch."

  /// What the names of families begin with that have a run of a build.
  package static let spillPrefix = "spill."

  private var spillFamilyPrefix: String { Self.spillPrefix + Self.familyPrefix(number, generation, isVolatile: false) }

  /// The name of the family that holds what a run has of a part: `spill.x.7~2.0.1`. Runs are counted from 0, and so are
  /// parts, in the order of the bytes of their names: a definition may have them in another order when the build continues.
  func spillFamilyName(_ part: Part, run: UInt32) -> String {
    let number = parts.count { $0.name.utf8.lexicographicallyPrecedes(part.name.utf8) }
    return "\(spillFamilyPrefix)\(run).\(number)"
  }

  /// Whether a family has a run of a build, of any record.
  static func isSpill(_ name: String) -> Bool { name.utf8.starts(with: spillPrefix.utf8) }

  /// Whether it needs a family as a run of its build.
  func keepsSpill(_ name: String) -> Bool {
    guard case .ingesting(let mark) = state, name.utf8.starts(with: spillFamilyPrefix.utf8),
      let text = String(name.utf8.dropFirst(spillFamilyPrefix.utf8.count).prefix { $0 != UInt8(ascii: ".") }),
      let run = UInt32(text)
    else { return false }
    return run < mark.runCount
  }

  /// What the names of an extension's families begin with. Volatile ones have names of their own, so that an
  /// extension that becomes persistent doesn't find its data in families that are emptied.
  static func familyPrefix(_ number: UInt32, _ generation: UInt32, isVolatile: Bool) -> String {
    (isVolatile ? volatilePrefix : "") + "x.\(number)\(generation == 0 ? "" : "~\(generation)")."
  }

  /// The name of the family of the settings in memory, in all generations. No part is named so: the names of parts are not
  /// empty.
  static func settingsFamily(of number: UInt32) -> String { familyPrefix(number, 0, isVolatile: true) }

  /// The number and the generation of the extension that a family belongs to; nil for a family of none.
  static func owner(ofFamily name: String) -> (number: UInt32, generation: UInt32)? {
    let parts = name.split(separator: ".", omittingEmptySubsequences: false)
    let rest = ["volatile", "scratch", "spill"].contains(parts.first) ? parts.dropFirst() : parts[...]
    guard rest.count >= 3, rest.first == "x" else { return nil }
    let fields = (rest.dropFirst().first ?? "").split(separator: "~", omittingEmptySubsequences: false)
    guard fields.count <= 2, let number = fields.first.flatMap({ UInt32($0) }) else { return nil }
    guard fields.count == 2 else { return (number, 0) }
    return UInt32(fields[1]).map { (number, $0) }
  }
}

extension ExtensionRecord.Part {
  /// A part that has all rows.
  init(_ definition: PartDefinition) {
    self.init(
      name: definition.name, version: definition.version, form: PartForm(definition.form),
      isVolatile: definition.isVolatile, isDerived: definition.isDerived)
  }

  /// Whether it is the same part, however far it is built.
  func isSame(as other: Self) -> Bool {
    name == other.name && version == other.version && form == other.form && isVolatile == other.isVolatile
      && isDerived == other.isDerived
  }
}
