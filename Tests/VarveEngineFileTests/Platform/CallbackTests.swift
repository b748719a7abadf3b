import Synchronization
import Testing

@testable import VarveEngine

struct CallbackTests {
  @Test func `no callback is called at first, and then the one that was set last`() {
    let callback = Callback()
    callback()
    #expect(!callback.isSet)
    let (first, second) = (Counter(), Counter())
    callback.set { first.add() }
    #expect(callback.isSet)
    callback()
    callback.set { second.add() }
    callback()
    callback()
    #expect(first.value == 1 && second.value == 2)
  }

  @Test func `what is called may set another`() {
    let callback = Callback()
    let calls = Counter()
    callback.set {
      calls.add()
      callback.set {}
    }
    callback()
    callback()
    #expect(calls.value == 1)
  }

  @Test func `the thousandth call is as direct as the first`() {
    let callback = Callback()
    let location = Location()
    callback.set { location.note() }
    callback()
    let first = location.address
    for _ in 0..<1_000 { callback() }
    // The address of a stack variable shows how many frames are on the stack.
    #expect(first != 0 && location.address == first)
  }

  private final class Counter: Sendable {
    private let number = Atomic<Int>(0)
    var value: Int { number.load(ordering: .relaxed) }
    func add() { number.add(1, ordering: .relaxed) }
  }

  private final class Location: Sendable {
    private let word = Atomic<UInt>(0)
    var address: UInt { word.load(ordering: .relaxed) }

    @inline(never)
    func note() {
      var variable: UInt8 = 0
      unsafe withUnsafeMutablePointer(to: &variable) { word.store(UInt(bitPattern: $0), ordering: .relaxed) }
    }
  }
}
