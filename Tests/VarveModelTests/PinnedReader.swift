import Dispatch
import Foundation
import Testing
import VarveTestSupport

@testable import Varve

/// A read that stays open, on a thread of its own, and does what it is asked: so a test can write beside it.
///
/// One thing at a time: `run` returns when it was done.
final class PinnedReader: @unchecked Sendable {
  // Sendable: what is changed is handed over by the semaphores.
  private let request = DispatchSemaphore(value: 0)
  private let reply = DispatchSemaphore(value: 0)
  private var job: ((ReadTransaction) throws -> Void)?
  private var failure: (any Error)?

  /// Begins a read, which sees what there is now.
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
