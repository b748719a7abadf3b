internal import Synchronization

/// How much memory of one kind is taken. Who takes memory adds what it takes, and takes off again what
/// it gives back.
///
/// Here, on a low floor, because memtables, log and tables don't know each other or the budget that
/// their accounts belong to.
///
/// # Concurrency
/// Safe from any thread. A charge costs a relaxed addition and what the owner does.
final class MemoryAccount: Sendable {
  private let total = Atomic<Int>(0)
  private let didCharge: @Sendable (Int) -> Void

  /// `didCharge` is notified of each change after it was counted.
  init(_ didCharge: @escaping @Sendable (Int) -> Void = { _ in }) { self.didCharge = didCharge }

  /// Bytes that are taken now.
  var used: Int { total.load(ordering: .relaxed) }

  /// Adds `bytes`, or takes off what was added before.
  func charge(_ bytes: Int) {
    guard bytes != 0 else { return }
    total.wrappingAdd(bytes, ordering: .relaxed)
    didCharge(bytes)
  }
}

/// Memory that is charged as long as this object lives: a part of whatever takes the memory.
///
/// # Concurrency
/// `resize` belongs to the owner of what is charged for; the end may be on any thread.
final class MemoryCharge: Sendable {
  private let account: MemoryAccount?
  private let size: Atomic<Int>

  /// Charges `bytes`; without an account, nothing.
  init(_ bytes: Int, to account: MemoryAccount?) {
    self.account = account
    size = Atomic(bytes)
    account?.charge(bytes)
  }

  deinit { account?.charge(-size.load(ordering: .relaxed)) }

  var bytes: Int { size.load(ordering: .relaxed) }

  /// Charges what it is more now, or gives back what it is less.
  func resize(to bytes: Int) {
    let before = size.exchange(bytes, ordering: .relaxed)
    account?.charge(bytes - before)
  }
}
