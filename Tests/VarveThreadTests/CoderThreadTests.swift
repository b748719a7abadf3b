import EngineTestSupport
import Foundation
import Synchronization
import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of many threads with one coder. Run these under ThreadSanitizer as well.
struct CoderThreadTests {
  private final class Seen: Sendable {
    let faults = Mutex<[String]>([])
    let bytes = Mutex<Set<[UInt8]>>([])
  }

  private static func work(_ number: Int, _ coder: ValueCoder, _ seen: Seen) throws {
    let book = Zoo.Book.sample(number)
    let library = Zoo.Library.sample
    let orders = LooseFields(number % 2 == 0 ? [.a, .c] : [.b, .a, .f])
    guard try coder.copy(book) == book, try coder.copy(library) == library,
      try coder.copy(orders).fields == orders.fields, try coder.copy(Zoo.Everything.sample) == .sample,
      try coder.copy(Zoo.Payload.sample) == .sample
    else { throw DatabaseError(.corruption, "another value, in round \(number)") }
    let row = try coder.encode(Zoo.Everything.sample)
    _ = seen.bytes.withLock { $0.insert(row.bytes) }
  }

  @Test func `many threads encode and decode with one registry at once`() async throws {
    let shapes = MemoryShapes()
    let coder = ValueCoder(.binary, shapes)
    let seen = Seen()
    await withTaskGroup(of: Void.self) { group in
      for worker in 0..<24 {
        group.addTask {
          do {
            for round in 0..<TestScale.atMost(40) { try Self.work(worker + round, coder, seen) }
          } catch {
            seen.faults.withLock { $0.append("worker \(worker): \(error)") }
          }
        }
      }
    }
    #expect(seen.faults.withLock { $0 } == [])
    // Whichever thread created the shapes, equal values have equal bytes.
    #expect(seen.bytes.withLock { $0.count } == 1)
    let texts = try shapes.texts
    #expect(Set(texts).count == texts.count)
  }

  @Test func `a pool lends each core to one user at a time, and keeps at most its limit`() {
    final class Core: Sendable {}
    let discarded = Mutex(0)
    do {
      let pool = CorePool<Core> { _ in discarded.withLock { $0 += 1 } }
      #expect(pool.take() == nil)
      let cores = (0..<12).map { _ in Core() }
      for core in cores { pool.give(core) }
      #expect(discarded.withLock { $0 } == 12 - CoderLimits.pooledCount)
      let taken = (0..<CoderLimits.pooledCount).compactMap { _ in pool.take() }
      #expect(Set(taken.map(ObjectIdentifier.init)).count == CoderLimits.pooledCount)
      #expect(pool.take() == nil)
      pool.give(taken[0])
    }
    #expect(discarded.withLock { $0 } == 12 - CoderLimits.pooledCount + 1)
  }

  @Test func `a coder that is released releases its encoders and decoders`() throws {
    weak var encoder: EncodingCore?
    weak var decoder: DecodingCore?
    do {
      let shapes = ShapeCache(MemoryShapes())
      let encoding = EncodingCore(shapes)
      let decoding = DecodingCore(shapes)
      (encoder, decoder) = (encoding, decoding)
      let pool = CorePool<EncodingCore> { $0.destroy() }
      let shape = try encoding.encode(Zoo.Tree.sample)
      let bytes = unsafe [UInt8](encoding.content)
      pool.give(encoding)
      let decoded = try unsafe bytes.withUnsafeBytes {
        try unsafe decoding.decode(Zoo.Tree.self, ByteSource($0), shape: shape)
      }
      #expect(decoded == Zoo.Tree.sample)
      decoding.destroy()
    }
    #expect(encoder == nil)
    #expect(decoder == nil)
  }

  /// A type that writes to two containers in turn, so that each needs a separate buffer, and then throws.
  private struct Interleaved: Encodable {
    static let cores = Mutex<[@Sendable () -> EncodingCore?]>([])
    let fails: Bool

    enum Key: CodingKey { case a, b, c }

    func encode(to encoder: any Encoder) throws {
      var fields = encoder.container(keyedBy: Key.self)
      var first = fields.nestedContainer(keyedBy: Key.self, forKey: .a)
      var second = fields.nestedContainer(keyedBy: Key.self, forKey: .b)
      for key in [Key.a, .b] {
        try first.encode(1, forKey: key)
        try second.encode(2, forKey: key)
      }
      let inner = fields.superEncoder(forKey: .c)
      if let handle = inner as? EncodingHandle {
        nonisolated(unsafe) weak let core = handle.core
        Self.cores.withLock { $0.append { unsafe core } }
      }
      var third = inner.container(keyedBy: Key.self)
      try third.encode(3, forKey: .a)
      try first.encode(4, forKey: .c)
      if fails { throw CancellationError() }
    }
  }

  @Test func `buffers of containers are released with a value that fails, and with its coder`() throws {
    let encoding = EncodingCore(ShapeCache(MemoryShapes()))
    for _ in 0..<3 { #expect(throws: CancellationError.self) { try encoding.encode(Interleaved(fails: true)) } }
    _ = try encoding.encode(Interleaved(fails: false))
    _ = try encoding.encode(1)
    let cores = Interleaved.cores.withLock { $0 }
    #expect(cores.count == 4)
    #expect(cores.allSatisfy { $0() == nil })
    encoding.destroy()
  }

  /// A type that requests a container for each element.
  private struct Containers: Codable {
    var count: Int

    init(count: Int) { self.count = count }

    init(from decoder: any Decoder) throws {
      var list = try decoder.unkeyedContainer()
      count = 0
      while !list.isAtEnd {
        _ = try list.nestedContainer(keyedBy: Interleaved.Key.self)
        count += 1
      }
    }

    func encode(to encoder: any Encoder) throws {
      var list = encoder.unkeyedContainer()
      for _ in 0..<count {
        var fields = list.nestedContainer(keyedBy: Interleaved.Key.self)
        try fields.encode(1, forKey: .a)
      }
    }
  }

  @Test func `a value with very many containers does not keep its memory with the decoder`() throws {
    let shapes = ShapeCache(MemoryShapes())
    let encoding = EncodingCore(shapes)
    let decoding = DecodingCore(shapes)
    let shape = try encoding.encode(Containers(count: 100_000))
    let bytes = unsafe [UInt8](encoding.content)
    for _ in 0..<2 {
      let decoded = try unsafe bytes.withUnsafeBytes {
        try unsafe decoding.decode(Containers.self, ByteSource($0), shape: shape)
      }
      #expect(decoded.count == 100_000)
      #expect(decoding.state.pointee.frames.capacity <= CoderLimits.keptFrames)
      #expect(decoding.state.pointee.offsets.capacity <= CoderLimits.keptOffsets)
    }
    encoding.destroy()
    decoding.destroy()
  }
}
