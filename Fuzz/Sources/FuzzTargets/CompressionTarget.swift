@testable import VarveEngine

/// The target for compression. The input is: codec (1), size of the content (2), compressed bytes.
enum CompressionTarget {
  static let headerSize = 3

  static func read(_ input: ByteView) throws {
    var reader = ByteReader(input)
    let number = try reader.integer(UInt8.self)
    let size = Int(try reader.integer(UInt16.self))
    guard let codec = Compression(rawValue: number % 3) else { return }
    let packed = try reader.bytes(reader.remaining)
    try roundTrip(packed, codec)
    let memory = try BlockMemory.allocate(size)
    unsafe try codec.decompress(packed, into: memory.buffer)
  }

  /// Checks that compressed content is restored unchanged.
  private static func roundTrip(_ content: ByteView, _ codec: Compression) throws {
    var packed = ByteWriter()
    guard codec.compress(content, appendingTo: &packed) else {
      return try require(packed.count == 0, "what was not packed left \(packed.count) bytes")
    }
    try require(packed.count <= content.count - content.count / 8, "packing saved less than an eighth")
    let memory = try BlockMemory.allocate(content.count)
    do throws(EngineError) {
      unsafe try codec.decompress(packed.view, into: memory.buffer)
    } catch {
      throw FuzzFailure("what was packed can't be unpacked: \(error)")
    }
    try require(memory.view == content, "what was packed unpacks to something else")
  }
}
