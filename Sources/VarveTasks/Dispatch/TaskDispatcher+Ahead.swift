internal import FutexLocks
internal import Synchronization

/// Claims that are made before a worker is free, so that their tasks begin without a commit.
///
/// Such a claim changes neither the state of the task nor its position. Which task begins next is decided when a worker
/// is free, by the same rules as for all tasks. All methods are called with the dispatcher's lock held.
extension TaskDispatcher.State {
  /// Makes claims of the next queued tasks ahead, so that they begin without a commit: as many as the workers run in a
  /// millisecond.
  mutating func takeAhead(_ work: inout TurnWork, _ host: TaskDispatcher.Host) {
    let wanting = running.ahead.takeWanting()
    if wanting.isEmpty { return }
    var room = host.workers * ClaimsAhead.maximum - running.ahead.count
    let share = max(1, room / wanting.count)
    for id in wanting {
      guard let subqueue = subqueues[id] else { continue }
      subqueue.wantsClaims = false
      // The tasks of a serial queue are claimed in the commits that end those before them. Those of a queue with a rate
      // are claimed together with their tokens.
      if !host.claimsAhead || subqueue.rules.isSerial || subqueue.queue.hasRate || subqueue.queue.isPaused { continue }
      room -= makeAhead(of: subqueue, atMost: min(share, room, work.remaining), &work, host)
    }
  }

  /// Makes claims of the next tasks of a subqueue ahead, and returns their number.
  private mutating func makeAhead(
    of subqueue: Subqueue, atMost maximum: Int, _ work: inout TurnWork, _ host: TaskDispatcher.Host
  ) -> Int {
    let workers = min(host.workers, subqueue.runningMaximum)
    var (number, count) = (0, 0)
    while number < min(subqueue.entryCount, workers * ClaimsAhead.maximum), count < maximum {
      let entry = subqueue.entry(number)
      number += 1
      if running.ahead.claim(of: entry) != nil || held[entry.id] != nil || holds.leftOut[entry.id] != nil { continue }
      // All other tasks are claimed when they begin.
      guard !entry.isSuspect, !running.ahead.has(entry.id), let value = entry.value,
        let stored = try? TaskRecord(value, stamp: entry.stamp), !stored.mayHaveBegun,
        let handler = running.handlers.find(stored.kind, subqueue.name)
      else { continue }
      // The tasks after one that takes long wait for it.
      guard let duration = subqueue.queue.duration(of: handler) else { break }
      let wanted = workers * min(ClaimsAhead.maximum, Int(ClaimsAhead.nanoseconds / duration))
      guard number <= wanted, let run = Self.run(stored, subqueue, handler, host, isAhead: true) else { break }
      running.ahead.insert(run)
      work.ahead.append(run)
      count += 1
    }
    return count
  }
}
