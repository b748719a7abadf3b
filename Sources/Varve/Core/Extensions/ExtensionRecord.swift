/// The catalog's record of an extension.
///
/// ```
///  byte 0        format of this record, 5
///  bytes 1–4     number, big-endian: never assigned twice; the order of first registration
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
///  4 + n bytes   only if failed: the error of the extension, as text: size big-endian, UTF-8
///  16 bytes      only if stale, and only if known: what it has received (`FeedPosition`)
///  16 bytes      only in the state ingesting: the position in the feed after which changes are delivered to it
///  4 bytes       only in the state ingesting: how many runs have what it was given, big-endian, at least 1
///  4 + n bytes   only in the state ingesting: the watermark of the last run
/// ```
/// The format is on disk and must never change.
///
/// A watermark is the collection's id, big-endian, and the key of the last row that was passed to the extension: rows
/// after it are not maintained yet. In the state ingesting the watermarks of the parts are empty, because the parts
/// are: the collected entries are in the families of the runs (`spillFamilyName`).
package struct ExtensionRecord: Hashable, Sendable {
  package enum State: Hashable, Sendable {
    case building(watermark: [UInt8])
    /// The extension is being built by tables (`IngestedBuild`), and families contain runs of its entries.
    case ingesting(IngestionMark)
    case ready
    /// The extension missed the changes after this position of the feed. With `nil` the missed changes are unknown, and
    /// the extension has to be built again.
    case stale(FeedPosition?)
    /// The build ended with an error of the extension's own, and the extension keeps nothing.
    case failed(String)

    /// Whether the extension would become stale by a change that it misses.
    var isUpToDate: Bool {
      switch self {
      case .building, .ready: true
      // These extensions receive missed changes from the feed, are built again, or keep nothing.
      case .ingesting, .stale, .failed: false
      }
    }

    var isFailed: Bool { if case .failed = self { true } else { false } }
    var isIngesting: Bool { if case .ingesting = self { true } else { false } }
    var isStale: Bool { if case .stale = self { true } else { false } }
  }

  /// The progress of a build by tables whose runs are in families.
  package struct IngestionMark: Hashable, Sendable {
    /// The position in the feed after which changes are delivered to the extension from the feed.
    package var position: FeedPosition
    /// The number of runs.
    package var runCount: UInt32
    /// The last row that was passed to the extension.
    package var watermark: [UInt8]
  }

  /// The record of a part.
  package struct Part: Hashable, Sendable {
    package var name: String
    package var version: String
    let form: PartForm
    package var isVolatile: Bool
    /// Whether the part's content is derived from rows.
    var isDerived = true
    /// The last row that was passed to the part, or `nil` if it has all rows.
    package var watermark: [UInt8]?

    /// Whether builds empty the part and pass it rows.
    var isBuilt: Bool { form != .scratch && isDerived }
  }

  package var number: UInt32
  package var state: State
  package var layout: UInt32
  var versionTag: String
  /// The kind of the extension. Registering another kind under the same name is an error.
  package var kind: String
  /// The collections from whose rows the extension was built.
  var scope: String
  /// The parts, in the order of the definition.
  package var parts: [Part] = []
  /// The generation of the families that contain the parts. Each definition that replaces another gets a new one.
  package var generation: UInt32 = 0
  /// Contains at most one record.
  private var shadows: [ExtensionRecord] = []

  /// The record of the extension that is being built to replace this one. It has the same number, and families of its
  /// own.
  package var shadow: ExtensionRecord? {
    get { shadows.first }
    set { shadows = newValue.map { [$0] } ?? [] }
  }

  /// This record without its shadow.
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

  /// Creates the record of an extension with the given traits. `versionTag` includes the versions of its dependencies.
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

  /// The versions with which the extension was built: its own, and those of all its dependencies, as `name=version`.
  package var tags: [String] {
    versionTag.split(separator: Self.tagSeparator, omittingEmptySubsequences: false).map(String.init)
  }

  /// Throws `.extensionMismatch` if the extension is of another kind.
  func requireKind(_ other: String, _ name: String) throws {
    guard kind == other else {
      throw DatabaseError(
        .extensionMismatch,
        "\"\(name)\" is an extension of kind \"\(kind)\" on disk, and of kind \"\(other)\" in the program; "
          + "unregister it, or register the other kind by another name")
    }
  }

  /// A text that identifies what dependent extensions are built from: the version tag, and a hash (64-bit FNV-1a) of
  /// the layout, the scope and the parts. It is on disk in their records, and must never change.
  var identity: String {
    var described = "\(layout)|\(scope)"
    // No other extension is built from counts.
    for part in parts where !isCompanion(part) {
      described += "|\(part.name)|\(part.version)|\(part.form.rawValue)|\(part.isVolatile)"
    }
    return "\(versionTag)#\(String(FNV1a.hash(described), radix: 16))"
  }

  /// Returns whether a part has the counts of another one.
  package func isCompanion(_ part: Part) -> Bool { parts.contains { RunFormat.partName(of: $0.name) == part.name } }

  static let tagSeparator: Character = "\u{1F}"

  /// Returns whether the extension was built with the named extension as a direct or indirect dependency.
  func depends(on name: String) -> Bool { tags.dropFirst().contains { $0.hasPrefix(name + "=") } }

  /// Returns the name of the family that contains a part.
  package func familyName(_ part: Part) -> String {
    let name = Self.familyPrefix(number, generation, isVolatile: part.isVolatile && part.form != .scratch) + part.name
    return part.form == .scratch ? Self.scratchPrefix + name : name
  }

  /// The prefix of the names of volatile families.
  package static let volatilePrefix = "volatile."
  /// The prefix of the names of families to which no commit writes.
  package static let scratchPrefix = "scratch."

  /// The prefix of the names of families that contain a run of a build.
  package static let spillPrefix = "spill."

  private var spillFamilyPrefix: String { Self.spillPrefix + Self.familyPrefix(number, generation, isVolatile: false) }

  /// Returns the name of the family that contains the entries of a run for a part, for example `spill.x.7~2.0.1`.
  ///
  /// Runs are counted from 0. So are parts, in the order of the bytes of their names, because a definition may order
  /// them differently when the build continues.
  func spillFamilyName(_ part: Part, run: UInt32) -> String {
    let number = parts.count { $0.name.utf8.lexicographicallyPrecedes(part.name.utf8) }
    return "\(spillFamilyPrefix)\(run).\(number)"
  }

  /// Returns whether a family contains a run of a build, of any record.
  static func isSpill(_ name: String) -> Bool { name.utf8.starts(with: spillPrefix.utf8) }

  /// Returns whether a family contains a run that this record's build still needs.
  func keepsSpill(_ name: String) -> Bool {
    guard case .ingesting(let mark) = state, name.utf8.starts(with: spillFamilyPrefix.utf8),
      let text = String(name.utf8.dropFirst(spillFamilyPrefix.utf8.count).prefix { $0 != UInt8(ascii: ".") }),
      let run = UInt32(text)
    else { return false }
    return run < mark.runCount
  }

  /// Returns the prefix of the names of an extension's families. Volatile families have a prefix of their own, so that
  /// an extension that becomes persistent doesn't find its data in families that are emptied.
  static func familyPrefix(_ number: UInt32, _ generation: UInt32, isVolatile: Bool) -> String {
    (isVolatile ? volatilePrefix : "") + "x.\(number)\(generation == 0 ? "" : "~\(generation)")."
  }

  /// Returns the name of the family of the settings in memory, for all generations. No part has this name, because the
  /// names of parts are not empty.
  static func settingsFamily(of number: UInt32) -> String { familyPrefix(number, 0, isVolatile: true) }

  /// Returns the number and the generation of the extension that a family belongs to, or `nil` if it belongs to none.
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
  /// Creates the record of a part that has all rows.
  init(_ definition: PartDefinition) {
    self.init(
      name: definition.name, version: definition.version, form: PartForm(definition.form),
      isVolatile: definition.isVolatile, isDerived: definition.isDerived)
  }

  /// Returns whether both describe the same part, however far each is built.
  func isSame(as other: Self) -> Bool {
    name == other.name && version == other.version && form == other.form && isVolatile == other.isVolatile
      && isDerived == other.isDerived
  }
}
