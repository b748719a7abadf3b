/// # Format
/// One byte: the codec of the family's tables (`Compression`), or 255 for the engine's. Bytes behind it
/// belong to later versions, which announce what must not be ignored by a required feature.
extension FamilyOptions {
  private static let engineDefault: UInt8 = 255

  var encoded: [UInt8] { [compression.map { Compression($0).rawValue } ?? Self.engineDefault] }

  init(decoding bytes: [UInt8], family: String) throws(EngineError) {
    self.init()
    guard let first = bytes.first, first != Self.engineDefault else { return }
    guard let codec = Compression(rawValue: first) else {
      throw EngineError(.unsupportedFormat, "column family \"\(family)\" is compressed by unknown codec \(first)")
    }
    compression = codec.kind
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
