/// The beginning of a file of the inbox: of a request, or of an answer.
///
/// # Format
/// Little-endian. On disk: never change.
///
///     offset   bytes
///     0        8      magic of the kind
///     8        4      version of the format, 1
///     12       4      CRC-32C of everything after it
///     16       8      id of the request, which is also part of the name
///     24       n      content of the kind
struct InboxHeader: Sendable {
  /// A request, `RequestFile`.
  static let request = InboxHeader(magic: 0x5145_5245_5652_4156, noun: "request", article: "a")
  /// An answer, `AnswerFile`.
  static let answer = InboxHeader(magic: 0x534e_4145_5652_4156, noun: "answer", article: "an")

  private let magic: UInt64
  private let noun: String
  private let article: String

  static let size = 24
  private static let version: UInt32 = 1
  private static let checksumOffset = 12
  private static let checkedFrom = 16

  /// Returns the bytes of a file with the content that `body` appends.
  func encode(id: UInt64, _ body: (inout ByteWriter) -> Void) -> [UInt8] {
    var writer = ByteWriter(capacity: 256)
    writer.append(integer: magic)
    writer.append(integer: Self.version)
    writer.append(integer: UInt32(0))
    writer.append(integer: id)
    body(&writer)
    writer.patch(
      integer: CRC32C.extend(0, writer.view.dropFirst(Self.checkedFrom)), at: Self.checksumOffset)
    return writer.view.bytes
  }

  /// Returns the id of a file, and a reader of its content. Throws `.corruption` if the file is damaged, and
  /// `.unsupportedFormat` for a later version of the format.
  func decode(_ view: ByteView, file: String) throws(EngineError) -> (id: UInt64, content: ByteReader) {
    guard view.count > Self.size, view.load(0, as: UInt64.self) == magic else {
      throw .corruption("not \(article) \(noun): wrong magic", file: file, offset: 0)
    }
    let version = view.load(8, as: UInt32.self)
    guard version == Self.version else {
      throw EngineError(
        .unsupportedFormat, "the \(noun) has format version \(version); expected \(Self.version)", file: file)
    }
    guard
      CRC32C.extend(0, view.dropFirst(Self.checkedFrom)) == view.load(Self.checksumOffset, as: UInt32.self)
    else { throw .corruption("\(noun) checksum mismatch", file: file, offset: UInt64(Self.checksumOffset)) }
    let content = ByteReader(view.dropFirst(Self.size), file: file, fileOffset: UInt64(Self.size))
    return (view.load(16, as: UInt64.self), content)
  }
}
