import Dispatch
import Foundation
import Synchronization
import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of nested values on threads with small stacks: they give an error, and do not crash the process.
struct StackTests {
  /// A value that encodes and decodes itself at each level.
  private final class Nested: Codable, Sendable {
    let inner: Nested?
    init(_ inner: Nested?) { self.inner = inner }

    static func deep(_ levels: Int) -> Nested { (1..<levels).reduce(Nested(nil)) { inner, _ in Nested(inner) } }
    var levels: Int {
      var count = 1
      var next = inner
      while let nested = next { (count, next) = (count + 1, nested.inner) }
      return count
    }
  }

  /// Runs `body` on a thread with a stack of `stack` bytes and returns its result.
  private static func onThread<Result: Sendable>(stack: Int, _ body: @escaping @Sendable () -> Result) -> Result? {
    let result = Mutex<Result?>(nil)
    let box = Box(result)
    let end = DispatchSemaphore(value: 0)
    let thread = Thread {
      let found = body()
      box.value.withLock { $0 = found }
      end.signal()
    }
    thread.stackSize = stack
    thread.start()
    end.wait()
    return box.value.withLock { $0 }
  }

  private final class Box<Value: Sendable>: Sendable {
    let value: Mutex<Value?>
    init(_ value: consuming Mutex<Value?>) { self.value = value }
  }

  @Test(arguments: [128, 256, 512, 8_192], [8, 100, 250, 400, 480, 511])
  func `a nested value is encoded and decoded, or refused, whatever stack the thread has`(
    kibibytes: Int, levels: Int
  ) throws {
    let shapes = MemoryShapes()
    // The value is encoded on a large stack, so that there is a row to decode.
    let encoded = Self.onThread(stack: 8 << 20) { [shapes] in
      Swift.Result { try ValueCoder(.binary, shapes).encode(Nested.deep(levels)) }
    }
    let value = try #require(try encoded?.get())
    let outcomes = Self.onThread(stack: kibibytes << 10) { [shapes] in
      let coder = ValueCoder(.binary, shapes)
      let written = Swift.Result { try coder.encode(Nested.deep(levels)).bytes.count }
      let read = Swift.Result { try coder.decode(Nested.self, value).levels }
      return (written, read)
    }
    let (written, read) = try #require(outcomes)
    switch written {
    case .success(let size): #expect(size == value.bytes.count)
    case .failure(let error): #expect("\(error)".contains("bytes of it are left"))
    }
    switch read {
    case .success(let found): #expect(found == levels)
    case .failure(let error): #expect("\(error)".contains("bytes of it are left"))
    }
    if kibibytes == 8_192 { #expect((try? written.get()) != nil && (try? read.get()) != nil) }
    if kibibytes == 128, levels >= 400 { #expect((try? written.get()) == nil && (try? read.get()) == nil) }
  }
}
