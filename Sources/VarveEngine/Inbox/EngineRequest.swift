/// What another process asks of the engine that has a database open for writing.
package enum EngineRequest: Sendable, Hashable {
  /// The statistics as they are now.
  case statistics
  /// Write all memtables to tables.
  case flush
  /// Merge the tables of a family, or of all without one, in a range of keys.
  case compact(family: String?, from: [UInt8]?, to: [UInt8]?)
  /// Make a checkpoint at an absolute path.
  case checkpoint(target: String)
}

/// A request with its sender: the content of a file `.request`.
///
/// # Format
/// Little-endian; a text is a varint with its size, and UTF-8. On disk: never change.
///
///     offset   bytes
///     0        8      magic, "VARVEREQ"
///     8        4      version of this format, 1
///     12       4      CRC-32C of everything after it
///     16       8      id, which is also part of the name
///     24       8      process id of the sender
///     32       8      when the sender's process began, as the system counts it; 0: not known
///     40       8      the namespace of the sender's process id; 0: not known
///     48       1      1 statistics, 2 flush, 3 compact, 4 checkpoint
///     49       n      compact: family, lower key and upper key, each as a byte that is 1 if there is one, and then its
///                     bytes as a text; checkpoint: the path of the target as a text
struct RequestFile: Sendable, Equatable {
  static let magic: UInt64 = 0x5145_5245_5652_4156
  static let version: UInt32 = 1
  static let headerSize = 48
  /// A larger file is refused. A request has at most two keys, the name of a family and a path.
  static let sizeMaximum = 1 << 20
  private static let checkedFrom = 16

  let id: UInt64
  let sender: ProcessPlace
  let request: EngineRequest

  init(id: UInt64, sender: ProcessPlace, request: EngineRequest) {
    self.id = id
    self.sender = sender
    self.request = request
  }

  func encode() -> [UInt8] {
    var writer = ByteWriter(capacity: 256)
    writer.append(integer: Self.magic)
    writer.append(integer: Self.version)
    writer.append(integer: UInt32(0))
    writer.append(integer: id)
    for number in [sender.process.number, sender.process.start, sender.namespace] { writer.append(integer: number) }
    switch request {
    case .statistics: writer.append(integer: UInt8(1))
    case .flush: writer.append(integer: UInt8(2))
    case .compact(let family, let lower, let upper):
      writer.append(integer: UInt8(3))
      for bytes in [family.map { Array($0.utf8) }, lower, upper] { writer.append(optional: bytes) }
    case .checkpoint(let target):
      writer.append(integer: UInt8(4))
      writer.append(text: target)
    }
    writer.patch(integer: CRC32C.extend(0, writer.view.dropFirst(Self.checkedFrom)), at: 12)
    return writer.view.bytes
  }

  /// Decodes a file. Throws `.corruption` if it is damaged, and `.unsupportedFormat` for a later version of the format
  /// or a request that this version does not know.
  init(decoding view: ByteView, file: String) throws(EngineError) {
    guard view.count > Self.headerSize, view.load(0, as: UInt64.self) == Self.magic else {
      throw .corruption("not a request: wrong magic", file: file, offset: 0)
    }
    let version = view.load(8, as: UInt32.self)
    guard version == Self.version else {
      throw EngineError(
        .unsupportedFormat, "the request has format version \(version); expected \(Self.version)", file: file)
    }
    guard CRC32C.extend(0, view.dropFirst(Self.checkedFrom)) == view.load(12, as: UInt32.self) else {
      throw .corruption("request checksum mismatch", file: file, offset: 12)
    }
    id = view.load(16, as: UInt64.self)
    sender = ProcessPlace(
      process: ProcessIdentity(number: view.load(24, as: UInt64.self), start: view.load(32, as: UInt64.self)),
      namespace: view.load(40, as: UInt64.self))
    var reader = ByteReader(view.dropFirst(Self.headerSize), file: file, fileOffset: UInt64(Self.headerSize))
    let kind = try reader.integer(UInt8.self)
    switch kind {
    case 1: request = .statistics
    case 2: request = .flush
    case 3:
      let family = try reader.optionalBytes().map { String(decoding: $0, as: UTF8.self) }
      request = .compact(family: family, from: try reader.optionalBytes(), to: try reader.optionalBytes())
    case 4: request = .checkpoint(target: try reader.text())
    default:
      throw EngineError(
        .unsupportedFormat, "the request is of kind \(kind), which this version does not know", file: file)
    }
    guard reader.isAtEnd else { throw reader.corruption("the request is followed by \(reader.remaining) bytes") }
  }
}

extension ByteWriter {
  /// Appends a text with its size.
  mutating func append(text: String) { Array(text.utf8).withByteView { append(lengthPrefixed: $0) } }

  /// Appends a byte that is 1 if there are bytes, and then the bytes with their size.
  mutating func append(optional bytes: [UInt8]?) {
    append(integer: UInt8(bytes == nil ? 0 : 1))
    bytes?.withByteView { append(lengthPrefixed: $0) }
  }
}

extension ByteReader {
  /// Reads a text with its size.
  mutating func text() throws(EngineError) -> String { String(decoding: try lengthPrefixed().bytes, as: UTF8.self) }

  /// Reads bytes that `append(optional:)` wrote.
  mutating func optionalBytes() throws(EngineError) -> [UInt8]? {
    switch try integer(UInt8.self) {
    case 0: return nil
    case 1: return try lengthPrefixed().bytes
    case let byte: throw corruption("the byte \(byte) is neither 0 nor 1")
    }
  }
}
