import Dispatch
import Foundation
import Testing
import VarveTestSupport

@testable import Varve

/// A read that stays open on a separate thread and runs closures, so that a test can write meanwhile.
///
/// It runs one closure at a time: `run` returns when the closure has returned.
final class PinnedReader: @unchecked Sendable {
  // Sendable: mutable state is passed between threads by the semaphores.
  private let request = DispatchSemaphore(value: 0)
  private let reply = DispatchSemaphore(value: 0)
  private var job: ((ReadTransaction) throws -> Void)?
  private var failure: (any Error)?

  /// Starts a read of the current state.
  init(_ database: Database) throws {
    let thread = Thread { [self] in
      do {
        try database.read { tx in
          reply.signal()
          while true {
            request.wait()
            guard let job else { return }
            do { try job(tx) } catch { failure = error }
            reply.signal()
          }
        }
      } catch {
        failure = error
      }
      reply.signal()
    }
    thread.stackSize = 4 << 20
    thread.start()
    reply.wait()
    if let failure { throw failure }
  }

  /// Runs `body` in the read.
  func run(_ body: @escaping (ReadTransaction) throws -> Void) throws {
    job = body
    failure = nil
    request.signal()
    reply.wait()
    if let failure { throw failure }
  }

  /// Ends the read.
  func end() {
    job = nil
    request.signal()
    reply.wait()
  }
}
