public import Varve

/// What sees tasks when they are enqueued.
public protocol EnqueueHook: Sendable {
  /// A task of a kind is about to be enqueued by a transaction: its options may be changed. What this throws the call throws, and
  /// nothing is enqueued. It runs in the transaction, and may read and write there.
  func enqueuing(_ kind: String, _ options: inout TaskOptions, in transaction: WriteTransaction) throws
}
