internal import Synchronization

/// The number of bytes of memory of one kind that are allocated. An owner of memory adds what it allocates, and
/// subtracts what it frees.
///
/// The type is in a low layer, because memtables, log and tables don't depend on each other or on the budget to which
/// their accounts belong.
///
/// # Concurrency
/// Safe from any thread. A charge costs a relaxed addition and the owner's function.
final class MemoryAccount: Sendable {
  private let total = Atomic<Int>(0)
  private let didCharge: @Sendable (Int) -> Void

  /// Creates an empty account. `didCharge` is called after each change was counted.
  init(_ didCharge: @escaping @Sendable (Int) -> Void = { _ in }) { self.didCharge = didCharge }

  /// The number of bytes that are currently charged.
  var used: Int { total.load(ordering: .relaxed) }

  /// Adds `bytes`, or subtracts them if they are negative.
  func charge(_ bytes: Int) {
    guard bytes != 0 else { return }
    total.wrappingAdd(bytes, ordering: .relaxed)
    didCharge(bytes)
  }
}

/// Memory that is charged as long as this object lives, which is stored in the owner of the memory.
///
/// # Concurrency
/// The owner of the memory calls `resize`; the object may be released on any thread.
final class MemoryCharge: Sendable {
  private let account: MemoryAccount?
  private let size: Atomic<Int>

  /// Charges `bytes`, or nothing if there is no account.
  init(_ bytes: Int, to account: MemoryAccount?) {
    self.account = account
    size = Atomic(bytes)
    account?.charge(bytes)
  }

  deinit { account?.charge(-size.load(ordering: .relaxed)) }

  var bytes: Int { size.load(ordering: .relaxed) }

  /// Charges the increase of the size, or returns its decrease.
  func resize(to bytes: Int) {
    let before = size.exchange(bytes, ordering: .relaxed)
    account?.charge(bytes - before)
  }
}
