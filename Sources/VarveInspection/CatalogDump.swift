internal import Varve

/// Renders the rows of the catalog as text, one line each.
struct CatalogDump {
  let snapshot: any StorageSnapshot
  let catalog: StorageFamily

  func run(line: (String) throws -> Void, fault: (any Error) throws -> Void) throws {
    var cursor = FamilyCursor(StorageRange(), in: catalog, of: snapshot, isReverse: false)
    while let (key, value) = try cursor.next() {
      let text: String
      do {
        text = try self.text(key, value)
      } catch {
        try fault(Self.placed(error, key))
        continue
      }
      try line(text)
    }
  }

  /// Returns the error with the key of the catalog row in its message.
  private static func placed(_ error: any Error, _ key: [UInt8]) -> any Error {
    guard let error = error as? DatabaseError else { return error }
    return DatabaseError(
      error.code, "catalog row \(hexadecimal(key)): \(error.message)", collection: error.collection, cause: error.cause)
  }

  // MARK: - Rows

  private func text(_ key: [UInt8], _ value: [UInt8]) throws -> String {
    let rest = key.count - 1
    switch key.first {
    case CatalogKey.format.first where rest == 0: return "format \(try Self.number(value, as: UInt32.self))"
    case CatalogKey.generation.first where rest == 0:
      return "changes of collections and versions: \(try Self.number(value, as: UInt32.self))"
    case CatalogKey.rowIDs.first where rest == 0:
      return "first row id that is not reserved: \(try Self.number(value, as: UInt64.self))"
    case CatalogKey.nextCollection.first where rest == 0:
      return "next collection id: \(try Self.number(value, as: UInt32.self))"
    case CatalogKey.nextExtension.first where rest == 0:
      return "next extension number: \(try Self.number(value, as: UInt32.self))"
    case CatalogKey.collections.first: return try collection(key, value)
    case CatalogKey.dropped.first where rest == 4:
      return
        "collection id \(try Self.number(key, at: 1, as: UInt32.self)) was dropped: \(Self.quoted(try Self.validText(value)))"
    case CatalogKey.extensions.first: return try Self.databaseExtension(key, value)
    case CatalogKey.shapes.first where rest == 4:
      let fields = try Shape(value).fields.map(Self.quoted).joined(separator: ", ")
      return "shape \(try Self.number(key, at: 1, as: UInt32.self)): {\(fields)}"
    case CatalogKey.coders.first where rest == 1: return "coder \(key[1]): \(Self.quoted(try Self.validText(value)))"
    case CatalogKey.nextCoder.first where rest == 0:
      return "next number of a coder: \(try Self.number(value, as: UInt8.self))"
    case CatalogKey.versions.first where rest == 8:
      let collection = try Self.number(key, at: 1, as: UInt32.self)
      let version = try Self.number(key, at: 5, as: UInt32.self)
      return "version \(version) of collection id \(collection): \(Self.quoted(try Self.validText(value)))"
    case CatalogKey.settings.first where rest >= 4: return try Self.setting(key, value)
    default: throw DatabaseError(.corruption, "it is of no kind that this version knows")
    }
  }

  private func collection(_ key: [UInt8], _ value: [UInt8]) throws -> String {
    let name = try CatalogKey.name(in: key)
    let record = try CollectionRecord(value, name: name)
    let first = record.writer == record.coder ? "" : ", first \(try coder(record.coder))"
    return
      "collection \(Self.quoted(name)): id \(record.id), keys \(record.keyType), coder \(try coder(record.writer))\(first), "
      + "storage \(record.isOwn ? "its own" : "shared")"
  }

  private func coder(_ number: UInt8) throws -> String {
    if let kind = CoderKind(number: number) { return "\(kind)" }
    guard let bytes = try snapshot.value(of: CatalogKey.coder(number), in: catalog) else {
      return "unknown (\(number))"
    }
    return Self.quoted(try Self.validText(bytes))
  }

  private static func databaseExtension(_ key: [UInt8], _ value: [UInt8]) throws -> String {
    let name = try CatalogKey.name(in: key)
    let record = try ExtensionRecord(value, name: name)
    let state =
      switch record.state {
      case .ready: "ready"
      case .stale(nil): "stale, to be rebuilt"
      case .stale(let position?): "stale since commit \(position.version)"
      case .failed(let message): "failed with \(quoted(message))"
      case .building(let watermark): "building, \(reached(watermark))"
      case .ingesting(let mark):
        "building by ingestion, \(reached(mark.watermark)), runs \(mark.runCount), since commit \(mark.position.version)"
      }
    // The tags that it depends on follow its own tag, each after a unit separator.
    let tags = record.tags
    let dependencies = tags.dropFirst().map { ", built on \(quoted($0))" }.joined()
    let parts = record.contentParts.map { part in
      ", part \(quoted(part.name)) version \(quoted(part.version))" + (record.isCounted(part) ? " counted" : "")
        + (part.watermark == nil ? "" : " being built")
    }
    let generation = record.generation == 0 ? "" : ", generation \(record.generation)"
    let shadow = record.shadow.map { shadow in
      ", being replaced by version \(quoted(shadow.tags.first ?? "")), generation \(shadow.generation)"
    }
    return "extension \(quoted(name)): number \(record.number)\(generation), \(state), layout \(record.layout), "
      + "version \(quoted(tags.first ?? ""))\(dependencies)\(parts.joined())\(shadow ?? "")"
  }

  private static func reached(_ watermark: [UInt8]) -> String {
    if watermark.isEmpty { return "no row done" }
    // The first four bytes of a watermark are the collection's id.
    return "done up to collection id \(BigEndian.number(watermark, as: UInt32.self) ?? 0) "
      + "key \(KeyText.text(of: Array(watermark.dropFirst(4))))"
  }

  private static func setting(_ key: [UInt8], _ value: [UInt8]) throws -> String {
    let text =
      switch try ExtensionSetting(value) {
      case .bool(let value): "\(value)"
      case .integer(let value): "\(value)"
      case .double(let value): "\(value)"
      case .string(let value): quoted(value)
      case .data(let value): hexadecimal(value)
      }
    let name = try CatalogKey.name(in: key, after: 5)
    return "setting \(quoted(name)) of extension number \(try number(key, at: 1, as: UInt32.self)): \(text)"
  }

  // MARK: - Values

  private static func number<Number: FixedWidthInteger>(
    _ bytes: [UInt8], at offset: Int = 0, as type: Number.Type
  ) throws -> Number {
    guard bytes.count - offset >= Number.bitWidth / 8, let number = BigEndian.number(bytes, at: offset, as: type) else {
      throw DatabaseError(.corruption, "a number has \(bytes.count - offset) bytes")
    }
    return number
  }

  private static func validText(_ bytes: [UInt8]) throws -> String {
    guard let text = String(validating: bytes, as: UTF8.self) else {
      throw DatabaseError(.corruption, "a text is not UTF-8")
    }
    return text
  }

  private static func quoted(_ text: String) -> String { KeyText.text(of: KeyPart.string(text)) }

  private static func hexadecimal(_ bytes: [UInt8]) -> String {
    bytes.reduce(into: "0x") { $0 += ($1 < 16 ? "0" : "") + String($1, radix: 16) }
  }
}

extension DatabaseInspector {
  /// Renders the catalog as text.
  ///
  /// Passes each row as one line of text to `line`, and the error of each row that can't be read to `fault`.
  public func dumpCatalog(line: (String) throws -> Void, fault: (any Error) throws -> Void) throws {
    try CatalogDump(snapshot: snapshot, catalog: catalog).run(line: line, fault: fault)
  }
}
