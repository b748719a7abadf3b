import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

struct KeyBufferTests {
  @Test func `a key of any size is copied, and compared with all of its bytes`() {
    var random = SeededRandom(seed: 1)
    var buffer = KeyBuffer()
    for size in 0..<300 {
      let bytes = (0..<size).map { _ in UInt8(random.below(256)) }
      let key = OwnedBytes(bytes)
      buffer.assign(key.view)
      #expect(buffer.view.bytes == bytes)
      #expect(key.withView { buffer.equals($0) })
      for index in 0..<size {
        var other = bytes
        other[index] ^= 1
        let isEqual = OwnedBytes(other).withView { buffer.equals($0) }
        #expect(!isEqual, "size \(size), byte \(index)")
      }
      let isEqualLonger = OwnedBytes(bytes + [0]).withView { buffer.equals($0) }
      #expect(!isEqualLonger, "size \(size)")
    }
  }

  @Test func `a buffer can be assigned a slice of itself`() {
    for size in [5, 12, 24, 100] {
      let bytes = (0..<size).map { UInt8($0) }
      var buffer = KeyBuffer()
      OwnedBytes(bytes).withView { buffer.assign($0) }
      buffer.assign(buffer.view)
      #expect(buffer.view.bytes == bytes)
      buffer.assign(buffer.view.slice(1, size - 2))
      #expect(buffer.view.bytes == Array(bytes[1..<size - 2]))
    }
  }
}
