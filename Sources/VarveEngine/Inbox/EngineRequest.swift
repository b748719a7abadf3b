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
///     0        24     header (`InboxHeader`), magic "VARVEREQ"
///     24       8      process id of the sender
///     32       8      when the sender's process began, as the system counts it; 0: not known
///     40       8      the namespace of the sender's process id; 0: not known
///     48       1      1 statistics, 2 flush, 3 compact, 4 checkpoint
///     49       n      compact: family, lower key and upper key, each as a byte that is 1 if there is one, and then its
///                     bytes as a text; checkpoint: the path of the target as a text
struct RequestFile: Sendable, Equatable {
  /// A larger file is refused. A request has at most two keys, the name of a family and a path.
  static let sizeMaximum = 1 << 20

  let id: UInt64
  let sender: ProcessPlace
  let request: EngineRequest

  init(id: UInt64, sender: ProcessPlace, request: EngineRequest) {
    self.id = id
    self.sender = sender
    self.request = request
  }

  func encode() -> [UInt8] {
    InboxHeader.request.encode(id: id) { writer in
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
    }
  }

  /// Decodes a file. Throws `.corruption` if it is damaged, and `.unsupportedFormat` for a later version of the format
  /// or a request that this version does not know.
  init(decoding view: ByteView, file: String) throws(EngineError) {
    let found = try InboxHeader.request.decode(view, file: file)
    var reader = found.content
    let sender = try reader.numbers(3)
    id = found.id
    self.sender = ProcessPlace(
      process: ProcessIdentity(number: sender[0], start: sender[1]), namespace: sender[2])
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

  /// Reads integers of eight bytes.
  mutating func numbers(_ count: Int) throws(EngineError) -> [UInt64] {
    var numbers: [UInt64] = []
    for _ in 0..<count { numbers.append(try integer(UInt64.self)) }
    return numbers
  }

  /// Reads bytes that `append(optional:)` wrote.
  mutating func optionalBytes() throws(EngineError) -> [UInt8]? {
    switch try integer(UInt8.self) {
    case 0: return nil
    case 1: return try lengthPrefixed().bytes
    case let byte: throw corruption("the byte \(byte) is neither 0 nor 1")
    }
  }
}
