public import Varve

/// A hook that is called when tasks are enqueued.
public protocol EnqueueHook: Sendable {
  /// Called when a transaction is about to enqueue a task of a kind. The hook may change the task's options.
  ///
  /// It runs in the transaction, and may read and write there. If it throws, the enqueueing call throws the error, and
  /// no task is enqueued.
  func enqueuing(_ kind: String, _ options: inout TaskOptions, in transaction: WriteTransaction) throws
}
