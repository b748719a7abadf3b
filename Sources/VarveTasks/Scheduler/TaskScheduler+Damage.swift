internal import Synchronization
internal import Varve

/// Reading a damaged database: what can't be read is passed, and everything else is read.
enum TaskDamage {
  /// Returns whether an error comes again however often the call is repeated, because something that is read is
  /// damaged.
  static func isLasting(_ error: any Error) -> Bool {
    if error is DamagedTask || error is TaskRefusal { return true }
    return (error as? DatabaseError)?.code == .corruption
  }

  /// The minimum size of the keys that a search for the end of damage compares.
  private static let keySize = 48

  /// Returns the first key of a range after what can't be read at its beginning, or `nil` if no key can be read.
  ///
  /// Complexity: two seeks for each bit of a key at most.
  static func end(of range: StorageRange, in part: Part) throws -> [UInt8]? {
    let size = max(keySize, range.lower.count + 1, (range.upper?.count ?? 0) + 1)
    /// The key of this size that is nearest to a key.
    func padded(_ key: [UInt8], with byte: UInt8 = 0) -> [UInt8] {
      key + [UInt8](repeating: byte, count: size - key.count)
    }
    func read(_ key: [UInt8]) throws -> (key: [UInt8]?, isDamaged: Bool) {
      do {
        return (try part.first(in: StorageRange(lower: key, upper: range.upper))?.key, false)
      } catch let error where isLasting(error) { return (nil, true) }
    }
    var low = padded(range.lower)
    var high = range.upper.map { padded($0) } ?? padded([], with: 0xFF)
    var found: [UInt8]?
    // In growing steps at first, so that what can be read before the next damage is not passed.
    for bit in 0..<8 * size {
      guard let next = sum(low, bit: bit), next.lexicographicallyPrecedes(high) else { break }
      let result = try read(next)
      if !result.isDamaged {
        (high, found) = (next, result.key)
        break
      }
      low = next
    }
    // Reading from `low` on fails, and reading from `high` on does not.
    while let middle = middle(low, high) {
      let result = try read(middle)
      if result.isDamaged { low = middle } else { (high, found) = (middle, result.key) }
    }
    return found
  }

  /// Returns a number plus the power of two of a bit, with the same number of bytes, or `nil` if it has not room for
  /// it.
  static func sum(_ number: [UInt8], bit: Int) -> [UInt8]? {
    var sum = number
    var index = number.count - 1 - bit / 8
    var carry = 1 << (bit % 8)
    while carry > 0 {
      if index < 0 { return nil }
      let value = Int(sum[index]) + carry
      sum[index] = UInt8(value & 0xFF)
      carry = value >> 8
      index -= 1
    }
    return sum
  }

  /// Returns the number in the middle between two, which have the same number of bytes, or `nil` if they are adjacent.
  static func middle(_ low: [UInt8], _ high: [UInt8]) -> [UInt8]? {
    var sum = [UInt8](repeating: 0, count: low.count)
    var carry = 0
    for index in low.indices.reversed() {
      let value = Int(low[index]) + Int(high[index]) + carry
      sum[index] = UInt8(value & 0xFF)
      carry = value >> 8
    }
    for index in sum.indices {
      let value = carry << 8 | Int(sum[index])
      sum[index] = UInt8(value >> 1)
      carry = value & 1
    }
    return sum == low ? nil : sum
  }

  /// Calls `body` with the rows of a range that can be read, in order, until it returns false. Calls `damaged` with the
  /// error at each position where rows can't be read.
  ///
  /// Complexity: one seek for each row, because a read of several rows would fail for all of them. So it is used only
  /// after such a read has failed.
  static func forEachReadable(
    in range: StorageRange, of part: Part, damaged: (any Error) -> Void,
    _ body: (_ key: [UInt8], _ value: [UInt8]) -> Bool
  ) throws {
    var range = range
    while !range.isEmpty {
      do {
        guard let (key, value) = try part.first(in: range) else { return }
        if !body(key, value) { return }
        range.lower = key + [0]
      } catch let error where isLasting(error) {
        damaged(error)
        guard let next = try end(of: range, in: part) else { return }
        range.lower = next
      }
    }
  }

  /// Returns the keys of a range that can be read, and an error if some can't.
  static func keys(
    of range: StorageRange, in part: Part
  ) throws -> (keys: [[UInt8]], damage: (any Error)?) {
    var keys: [[UInt8]] = []
    do {
      var cursor = try part.cursor(range, keysOnly: true)
      while let (key, _) = try cursor.next() { keys.append(key) }
      return (keys, nil)
    } catch let error where isLasting(error) {
      keys = []
      var damage = error
      try forEachReadable(in: range, of: part) {
        damage = $0
      } _: { key, _ in
        keys.append(key)
        return true
      }
      return (keys, damage)
    }
  }
}

/// The commits of work some of which needs what can't be read.
extension TaskScheduler {
  /// Commits work after a commit of all of it has failed because something is damaged: each half of it alone, and so
  /// on. What fails by itself is left out.
  func writeParts(of work: TurnWork, _ database: Database, _ start: UInt32) async {
    // The last one is next.
    var parts = [work]
    while let part = parts.popLast() {
      do {
        dispatcher.beginCommit(start)
        do { try await write(part, database, start) } catch let error where TaskDamage.isLasting(error) {
          let halves = part.halves
          if halves.isEmpty { try await leaveOut(part, error, database, start) }
          parts += halves.reversed()
        }
      } catch {
        // The first part is put in front of the others.
        return await fail(parts + [part], error, start)
      }
    }
  }

  /// Leaves out a part of a commit that can't be made, so that it is not tried again until the next start.
  ///
  /// Throws an error that is not about damage.
  private func leaveOut(
    _ work: TurnWork, _ error: any Error, _ database: Database, _ start: UInt32
  ) async throws {
    if let run = work.settlements.first?.run, !dispatcher.withChildren([run.id]).isEmpty {
      // What depends on the task may be what can't be read. The next start tries again to let it run.
      dispatcher.beginCommit(start)
      do {
        try await write(work, database, start, leavesChildren: true)
        return SchedulerLog.unreadable(logger, "the tasks that depend on task \(run.id)", error)
      } catch let other where TaskDamage.isLasting(other) {}
    }
    for settlement in work.settlements {
      let run = settlement.run
      SchedulerLog.unreadable(logger, "the end of an attempt of task \(run.id)", error)
      dispatcher.leaveOut(settlement, abandonTimers(of: run))
      if settlement.isTimeout { run.state.withLock { $0.task }?.cancel() }
    }
    for run in work.claims { SchedulerLog.unreadable(logger, "the beginning of task \(run.id)", error) }
    dispatcher.undo(work.claims, ahead: work.ahead, [], isLeaving: true)
    // The next start finds the claims that can't be deleted, and attempts of which no row says that they have begun.
    for (id, _) in work.due { SchedulerLog.unreadable(logger, "task \(id), which is due", error) }
    for id in work.pending { SchedulerLog.unreadable(logger, "the tasks that depend on task \(id)", error) }
    for name in work.schedules {
      SchedulerLog.unreadable(logger, "the times of schedule \(name) up to now", error)
      skipSlots(of: name)
    }
    for queue in work.ageing {
      SchedulerLog.unreadable(logger, "the ageing of queue \(dispatcher.name(queue)?.text ?? "\(queue)")", error)
    }
    endAgeing(work.ageing)
    for request in work.requests {
      // The scheduler itself has requested it.
      if request.change == .cancelMissed { SchedulerLog.unreadable(logger, "a request to cancel a task", error) }
      request.fail(error)
    }
    for run in work.abandoned {
      SchedulerLog.unreadable(logger, "the event of an abandoned handler of task \(run.id)", error)
    }
  }
}

extension TurnWork {
  /// The work in two parts, in the order in which a commit does it. It is empty if the work can't be divided.
  var halves: [TurnWork] {
    let count =
      pending.count + settlements.count + due.count + schedules.count + ageing.count + claims.count + requests.count
      + abandoned.count + ahead.count + begun.count + strayClaims.count
    if count < 2 { return [] }
    var (first, second) = (TurnWork(), TurnWork())
    var left = count / 2
    func divide<Element>(_ list: WritableKeyPath<TurnWork, [Element]>) {
      let all = self[keyPath: list]
      first[keyPath: list] = Array(all.prefix(left))
      second[keyPath: list] = Array(all.dropFirst(left))
      left -= min(left, all.count)
    }
    divide(\.pending)
    divide(\.settlements)
    divide(\.due)
    divide(\.schedules)
    divide(\.ageing)
    divide(\.claims)
    divide(\.requests)
    divide(\.abandoned)
    divide(\.ahead)
    divide(\.begun)
    divide(\.strayClaims)
    first.notesUnregistered = notesUnregistered
    // The tokens are written with the first tasks that have taken some.
    if first.claims.isEmpty { second.tokens = tokens } else { first.tokens = tokens }
    return [first, second]
  }
}
