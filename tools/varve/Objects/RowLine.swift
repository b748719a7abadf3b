import Varve
import VarveEngine
import VarveInspection

/// A row as a line of text, as `export --collection` writes it and `load --collection` reads it; `objects --json`
/// prints it with the row's id.
///
/// # Format
/// Each line is one JSON object that contains all that another database needs, so lines may be sorted, extracted and
/// combined.
/// ```
/// key             the key, each part with its kind: see KeyJSON
/// keyType         the type of the collection's keys: "string", "compound(int,string)"
/// coder           the coder that wrote the row: "raw", "binary", "json", "propertyList", or the stored name of a
///                 program's own coder
/// storage         "own" if its rows are in families of their own; otherwise absent
/// compression     with storage: the compression of those families, if it is not that of the database
/// version         the version of the format that wrote the object; absent without a format
/// object          the object in readable form: for the coder raw a string if the bytes are UTF-8; for the coder json
///                 the stored text itself; for the others the value as JSON
/// objectHex       the object's bytes as the coder wrote them, if `object` alone would not restore them: always for the
///                 coders binary and propertyList, and without `object` for coders of programs
/// shape           for the coder binary: the names of the fields of the record that the object is
/// shapes          for the coder binary: the names of the fields of the records inside; objectHex numbers them from
///                 1, in the order of first occurrence, not as the catalog does
/// metadata, metadataHex, metadataShape, metadataShapes, metadataVersion
///                 like the members without "metadata", for the metadata, which is of the coder binary if the objects
///                 are raw; absent if the row has none
/// id, keyText     the row's id and the key for people: only in the output of `objects`, and ignored by load
/// ```
/// If a value has both forms, its bytes count and the readable form must be equal; a line in which only one form was
/// changed is refused. On disk: never change a name.
struct RowLine {
  /// A value in its readable form, its bytes, or both.
  private struct Value {
    /// The value of the member, and its text.
    var readable: (json: JSONValue, text: [UInt8])?
    var hex: [UInt8]?
    var shape: [String] = []
    var shapes: [[String]] = []
    var version: String?
    var isThere: Bool { readable != nil || hex != nil }
  }

  /// The key, encoded.
  let key: [UInt8]
  /// The collection's parameters in the line, or `nil` if the line has none.
  let collection: PortableCollection?
  private var object = Value()
  private var metadata = Value()

  // MARK: - Writing

  /// Returns the line of a row. Throws if a part of it can't be spelled out.
  static func text(
    _ row: InspectedRow, _ contents: InspectedContents, of collection: PortableCollection, withID: Bool
  ) throws -> String {
    var line = keyLine(row, withText: withID)
    line.add("keyType", collection.keyType)
    line.add("coder", contents.coder.name)
    if case .own(let compression) = collection.storage {
      line.add("storage", "own")
      if let compression { line.add("compression", compression.rawValue) }
    }
    if withID { line.add("id", contents.id.number) }
    try add(contents.object, "object", "shape", "version", to: &line)
    if let metadata = contents.metadata {
      guard metadata.coder == contents.coder.ofMetadata else {
        throw DatabaseError(
          .definitionDiffers,
          "its object is of the coder \(contents.coder) and its metadata of \(metadata.coder), which a line can't say; "
            + "migrate the collection", collection: row.key.collection, key: row.key.text)
      }
      try add(metadata, "metadata", "metadataShape", "metadataVersion", to: &line)
    }
    return line.text
  }

  /// Returns a line with only the key.
  static func keyLine(_ row: InspectedRow, withText: Bool) -> JSONLine {
    var line = JSONLine()
    if let json = KeyJSON.text(row.key.bytes) { line.add("key", json: json) }
    if withText { line.add("keyText", row.key.text) }
    return line
  }

  private static func add(
    _ value: InspectedValue, _ name: String, _ shape: String, _ version: String, to line: inout JSONLine
  ) throws {
    let coder = value.coder.kind
    let portable = try value.portable()
    if let text = portable.version { line.add(version, text) }
    var isExact = false
    if coder == .raw {
      if let text = String(validating: portable.bytes, as: UTF8.self) {
        line.add(name, text)
        isExact = true
      }
    } else if let json = value.json, case let text = Array(json.utf8), (try? JSONValue.parse(text)) != nil {
      line.add(name, json: json)
      isExact = coder == .json && text == portable.bytes && text.first != 0x20 && text.last != 0x20
    }
    if !isExact { line.add(name + "Hex", HexText.text(portable.bytes)) }
    if !portable.shape.isEmpty { line.add(shape, json: names(portable.shape)) }
    if !portable.shapes.isEmpty { line.add(shape + "s", json: JSONLine.array(portable.shapes.map(names))) }
  }

  private static func names(_ names: [String]) -> String { JSONLine.array(names.map(JSONLine.quoted)) }

  // MARK: - Reading

  /// Parses a line. Throws an error that describes the fault in it.
  init(_ text: [UInt8]) throws(RecordError) {
    guard case .object(let members) = try JSONValue.parse(text) else {
      throw RecordError("the line is not the JSON object of a row")
    }
    var key: [UInt8]?
    var terms = Terms()
    var seen: Set<String> = []
    for member in members {
      guard seen.insert(member.name).inserted else { throw RecordError("the member \"\(member.name)\" is there twice") }
      switch member.name {
      case "key": key = try KeyJSON.key(member.value)
      case "keyType": terms.keyType = try Self.string(member)
      case "coder": terms.coder = try Self.coder(member)
      case "storage": terms.isOwn = try Self.string(member) == "own"
      case "compression": terms.compression = try Self.compression(member)
      case "id", "keyText": break
      case "version", "object", "objectHex", "shape", "shapes": try Self.set(&object, member, member.name, text)
      case "metadata": try Self.set(&metadata, member, "object", text)
      case "metadataHex": try Self.set(&metadata, member, "objectHex", text)
      case "metadataVersion": try Self.set(&metadata, member, "version", text)
      case "metadataShape": try Self.set(&metadata, member, "shape", text)
      case "metadataShapes": try Self.set(&metadata, member, "shapes", text)
      default: throw Self.unknown(member)
      }
    }
    guard let key else { throw RecordError("the key is missing") }
    guard object.isThere else { throw RecordError("neither object nor objectHex is there") }
    guard metadata.isThere || !seen.contains(where: { $0.hasPrefix("metadata") }) else {
      throw RecordError("neither metadata nor metadataHex is there, but what belongs to them")
    }
    self.key = key
    collection = try terms.collection()
  }

  /// The collection's parameters in a line, as far as it was read.
  private struct Terms {
    var keyType: String?
    var coder: CoderName?
    var isOwn = false
    var compression: CompressionKind?

    func collection() throws(RecordError) -> PortableCollection? {
      switch (keyType, coder) {
      case (let keyType?, let coder?):
        return PortableCollection(
          keyType: keyType, coder: coder, storage: isOwn ? .own(compression: compression) : .shared)
      case (nil, nil): return nil
      default: throw RecordError("keyType and coder go together")
      }
    }
  }

  private static func set(
    _ value: inout Value, _ member: JSONValue.Member, _ name: String, _ text: [UInt8]
  ) throws(RecordError) {
    switch name {
    case "object": value.readable = (member.value, Array(text[member.range]))
    case "objectHex":
      guard let bytes = HexText.bytes(try string(member)) else {
        throw RecordError("\(member.name) is not an even number of hexadecimal digits")
      }
      value.hex = bytes
    case "version": value.version = try string(member)
    case "shape": value.shape = try strings(member.value, member.name)
    case "shapes":
      guard case .array(let shapes) = member.value else {
        throw RecordError("\(member.name) is not an array of arrays")
      }
      for shape in shapes { value.shapes.append(try strings(shape, member.name)) }
    default: throw unknown(member)
    }
  }

  private static func unknown(_ member: JSONValue.Member) -> RecordError {
    RecordError("a row has no member \"\(member.name)\"")
  }

  private static func string(_ member: JSONValue.Member) throws(RecordError) -> String {
    guard case .string(let text) = member.value else { throw RecordError("\(member.name) is not a string") }
    return text
  }

  private static func strings(_ value: JSONValue, _ name: String) throws(RecordError) -> [String] {
    guard case .array(let values) = value else { throw RecordError("\(name) is not an array of names") }
    var names: [String] = []
    for value in values {
      guard case .string(let name) = value else { throw RecordError("\(name) is not an array of names") }
      names.append(name)
    }
    return names
  }

  private static func compression(_ member: JSONValue.Member) throws(RecordError) -> CompressionKind {
    let name = try string(member)
    guard let found = CompressionKind(rawValue: name) else {
      let known = CompressionKind.allCases.map(\.rawValue).joined(separator: ", ")
      throw RecordError("no compression is named \"\(name)\"; there are \(known)")
    }
    return found
  }

  private static func coder(_ member: JSONValue.Member) throws(RecordError) -> CoderName {
    let name = try string(member)
    if name.isEmpty { throw RecordError("the name of the coder is empty") }
    return CoderName(name)
  }

  // MARK: - As a row

  /// Returns the row for a collection with this coder.
  func row(_ coder: CoderName) throws(RecordError) -> PortableRow {
    PortableRow(
      key: key, object: try Self.portable(object, "object", coder),
      metadata: metadata.isThere ? try Self.portable(metadata, "metadata", coder.ofMetadata) : nil)
  }

  /// Throws if the readable form of a value differs from its bytes.
  func check(_ row: PreparedRow) throws(RecordError) {
    try Self.check(object, row.object, "object")
    if let prepared = row.metadata { try Self.check(metadata, prepared, "metadata") }
  }

  private static func portable(
    _ value: Value, _ name: String, _ coder: CoderName
  ) throws(RecordError) -> PortableValue {
    let bytes: [UInt8]
    switch (value.hex, value.readable, coder.kind) {
    case (_?, _?, .raw): throw RecordError("\(name) and \(name)Hex exclude each other for the coder raw")
    case (let hex?, _, _): bytes = hex
    case (nil, (.string(let text), _)?, .raw): bytes = Array(text.utf8)
    case (nil, _, .raw): throw RecordError("\(name) of the coder raw is not a string")
    case (nil, (_, let text)?, .json): bytes = text
    default:
      throw RecordError(
        "\(name)Hex is missing: \(name) is a readable form, and not all that the coder \(coder) has stored")
    }
    return PortableValue(version: value.version, shape: value.shape, shapes: value.shapes, bytes: bytes)
  }

  private static func check(_ value: Value, _ prepared: PreparedValue, _ name: String) throws(RecordError) {
    guard value.hex != nil, let readable = value.readable, let json = prepared.json,
      json.utf8.elementsEqual(readable.text) == false
    else { return }
    guard let meant = try? JSONValue.parse(Array(json.utf8)), meant.isSame(as: readable.json) else {
      throw RecordError("\(name) says something else than \(name)Hex, which counts; take one of them away")
    }
  }
}
