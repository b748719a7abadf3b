import EngineTestSupport
import Foundation
import Synchronization
import Testing

@testable import Varve

/// Many threads with one coder. Run these under ThreadSanitizer as well.
struct CoderThreadTests {
  private final class Seen: Sendable {
    let faults = Mutex<[String]>([])
    let bytes = Mutex<Set<[UInt8]>>([])
  }

  private static func work(_ number: Int, _ coder: ValueCoder, _ seen: Seen) throws {
    let book = Zoo.Book.sample(number)
    let library = Zoo.Library.sample
    let orders = BinaryShapeTests.Loose(number % 2 == 0 ? [.a, .c] : [.b, .a, .f])
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
    // Whoever learned the shapes: equal values have equal bytes.
    #expect(seen.bytes.withLock { $0.count } == 1)
    let texts = try shapes.texts
    #expect(Set(texts).count == texts.count)
  }

  @Test func `a pool gives a core to one at a time, and keeps no more than it may`() {
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

  @Test func `a coder that ends takes its encoders and decoders along`() throws {
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
}
