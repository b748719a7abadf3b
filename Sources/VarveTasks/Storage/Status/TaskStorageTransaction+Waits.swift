@_spi(Extensions) internal import Varve

/// What tasks wait for.
extension TaskStorageTransaction {
  /// The maximum number of tasks that `parents` returns: the last task of a group may wait for very many.
  private static let parentMaximum = 100

  /// Returns the tasks that a task still waits for, at most the first ones.
  func parents(of record: TaskRecord) throws -> [TaskID] {
    if record.progress.state != .blocked { return [] }
    var parents: [TaskID] = []
    var cursor = try self.parts.live.unchecked.cursor(
      StorageRange(prefix: TaskKeys.parent(of: record.id)), keysOnly: true)
    while parents.count < Self.parentMaximum, let (key, _) = try cursor.next() {
      parents.append(try TaskKeys.id(of: key, at: 9))
    }
    return parents
  }

  /// Returns what a task waits for, given its record as callers see it and the tasks that it depends on.
  func waits(of record: TaskRecord, in queue: QueueName, _ parents: [TaskID]) throws -> [TaskWait] {
    let state = record.progress.state
    guard state.isWaiting else { return [] }
    var waits: [TaskWait] = []
    switch state {
    case .blocked: waits.append(.tasks(parents))
    case .scheduled, .retryWait: waits.append(.time(WallTime.date(record.position.due)))
    case .parked: waits.append(.signals(record.signals.map { WakeSignal($0) }))
    default: break
    }
    if try isCopy() { waits.append(.copy) }
    if try isPaused(queue, record.position.queue) { waits.append(.pausedQueue) }
    if state != .ready { return waits }
    let head = try head(of: record.position.subqueue)
    waits += dispatcher.waits(of: record, after: head)
    if !dispatcher.isAttached, let head, head.id != record.id, [.retryWait, .parked, .dead].contains(head.state) {
      // Only the head of a serial queue is queued in such a state.
      waits.append(.head(head.id, head.state))
    }
    return waits
  }

  /// Returns a value that is computed once in a transaction that only reads.
  private func cached<Value>(
    _ path: ReferenceWritableKeyPath<TaskStorageTransaction, Value?>, _ make: () throws -> Value
  ) throws -> Value {
    if let value = self[keyPath: path] { return value }
    let value = try make()
    if context.writeTransaction == nil { self[keyPath: path] = value }
    return value
  }

  private func isCopy() throws -> Bool { try cached(\.waitCache.isCopy) { try areHeld } }

  private func isPaused(_ name: QueueName, _ number: UInt32) throws -> Bool {
    try cached(\.waitCache.arePaused[number]) { try queue(name)?.isPaused ?? false }
  }

  /// Returns the first task of a subqueue and its state, or `nil` if there is none or it can't be read.
  private func head(of subqueue: SubqueueID) throws -> (id: TaskID, state: TaskState)? {
    try cached(\.waitCache.heads[subqueue]) {
      guard let (key, value) = try parts.live.unchecked.first(in: StorageRange(prefix: subqueue.begin)),
        let entry = try? QueuedTask(key: key, value: value)
      else { return WaitCache.Head(first: nil) }
      let isRunning = dispatcher.run(entry.id) != nil || foreignRuns[entry.id] != nil
      return WaitCache.Head(first: (entry.id, isRunning ? .running : entry.state))
    }.first
  }
}

/// What a transaction that only reads has found out about the tasks that wait.
struct WaitCache {
  struct Head { let first: (id: TaskID, state: TaskState)? }

  var isCopy: Bool?
  var arePaused: [UInt32: Bool] = [:]
  var heads: [SubqueueID: Head] = [:]
}
