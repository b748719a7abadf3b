/// The encoding of a family's options in the MANIFEST.
///
/// # Format
/// One byte: the codec of the family's tables (`Compression`), or 255 for the engine's. Then one byte with the size of
/// the merge operator's name, 0 for none, and the name in UTF-8. Then one byte with `FamilyFlags`. Then the size of
/// memtables in bytes, 8 bytes little-endian. Trailing fields with default values are omitted. Bytes after these belong
/// to later versions, which announce what must not be ignored by a required feature.
extension FamilyOptions {
  private static let engineDefault: UInt8 = 255

  var encoded: [UInt8] {
    let codec = compression.map { Compression($0).rawValue } ?? Self.engineDefault
    let name = Array((mergeOperator ?? "").utf8)
    if let memtableSize {
      let size = (0..<8).map { UInt8(truncatingIfNeeded: memtableSize >> (8 * $0)) }
      return [codec, UInt8(name.count)] + name + [flags.rawValue] + size
    }
    if flags.isEmpty { return name.isEmpty ? [codec] : [codec, UInt8(name.count)] + name }
    return [codec, UInt8(name.count)] + name + [flags.rawValue]
  }

  /// The Boolean options as flags.
  var flags: FamilyFlags { isVolatile ? .volatile : [] }

  init(decoding bytes: [UInt8], family: String) throws(EngineError) {
    self.init()
    guard let first = bytes.first else { return }
    if first != Self.engineDefault {
      guard let codec = Compression(rawValue: first) else {
        throw EngineError(.unsupportedFormat, "column family \"\(family)\" is compressed by unknown codec \(first)")
      }
      compression = codec.kind
    }
    isVolatile = FamilyFlags(options: bytes).contains(.volatile)
    guard bytes.count > 1 else { return }
    let end = 2 + Int(bytes[1])
    guard bytes.count >= end else {
      throw .corruption("the options of column family \"\(family)\" end inside the name of its merge operator")
    }
    if end > 2 { mergeOperator = String(decoding: bytes[2..<end], as: UTF8.self) }
    guard bytes.count > end + 1 else { return }
    guard bytes.count >= end + 9 else {
      throw .corruption("the options of column family \"\(family)\" end inside the size of its memtables")
    }
    let size = bytes[(end + 1)..<(end + 9)].reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
    let sizes = Limits.memtableSizes
    guard let known = Int(exactly: size), sizes.contains(known) else {
      throw .corruption(
        "the options of column family \"\(family)\" name memtables of \(size) bytes; \(sizes.lowerBound) to \(sizes.upperBound) are expected"
      )
    }
    memtableSize = known
  }
}

extension Compression {
  init(_ kind: CompressionKind) {
    switch kind {
    case .none: self = .none
    case .lz4: self = .lz4
    case .zstd: self = .zstd
    }
  }

  var kind: CompressionKind {
    switch self {
    case .none: .none
    case .lz4: .lz4
    case .zstd: .zstd
    }
  }
}
