internal import CVarve

/// The closures of transactions that run on a thread, the innermost first, by which a nested transaction finds the one
/// around it. They belong to the thread and not to a task-local value: a closure does not suspend, so whatever runs on
/// its thread meanwhile was called by it.
final class ThreadFrame {
  let transaction: ReadTransaction
  private let outer: ThreadFrame?

  private init(_ transaction: ReadTransaction, outer: ThreadFrame?) {
    self.transaction = transaction
    self.outer = outer
  }

  private static var current: ThreadFrame? {
    // Safety: only `run` sets the slot, to a frame that it keeps alive until it has reset the slot.
    unsafe cvarve_thread_slot().map { unsafe Unmanaged<ThreadFrame>.fromOpaque($0).takeUnretainedValue() }
  }

  /// Returns the innermost transaction of a database on this thread.
  static func transaction(of database: DatabaseCore) -> ReadTransaction? {
    var frame = current
    while let next = frame {
      if next.transaction.database === database { return next.transaction }
      frame = next.outer
    }
    return nil
  }

  /// Runs `body` as a closure of a transaction on this thread.
  static func run<Transaction: ReadTransaction, Result>(
    _ transaction: Transaction, _ body: (Transaction) throws -> Result
  ) rethrows -> Result {
    let frame = ThreadFrame(transaction, outer: current)
    let outer = unsafe cvarve_thread_slot()
    unsafe cvarve_set_thread_slot(Unmanaged.passUnretained(frame).toOpaque())
    defer { unsafe cvarve_set_thread_slot(outer) }
    return try withExtendedLifetime(frame) { try body(transaction) }
  }
}
