import Foundation
import Synchronization
import Testing

/// Threads of a test, each of which runs the same body with a number of its own.
enum Threads {
  /// Runs `body` on so many threads at once, and returns when all have ended. What it throws is an issue.
  static func run(_ count: Int, _ body: @escaping @Sendable (Int) throws -> Void) {
    let group = DispatchGroup()
    let errors = Mutex<[String]>([])
    let box = Errors(errors)
    for index in 0..<count {
      group.enter()
      let thread = Thread {
        defer { group.leave() }
        do { try body(index) } catch { box.add("thread \(index): \(error)") }
      }
      thread.stackSize = 1 << 20
      thread.start()
    }
    group.wait()
    #expect(box.all == [])
  }

  private final class Errors: Sendable {
    private let errors: Mutex<[String]>
    init(_ errors: consuming Mutex<[String]>) { self.errors = errors }
    func add(_ error: String) { errors.withLock { $0.append(error) } }
    var all: [String] { errors.withLock { $0 } }
  }
}
