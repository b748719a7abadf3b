import Synchronization
import Testing

@testable import VarveEngine

struct CallbackTests {
  @Test func `a call does nothing at first, and later calls the function that was set last`() {
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

  @Test func `a function that is called may set another one`() {
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

  @Test func `the thousandth call takes no more stack than the first`() {
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
