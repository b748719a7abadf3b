internal import Synchronization
internal import Varve

/// Remembers, for each child that waits for several tasks, the parent that was last found to be open.
///
/// The end of a parent has to find out whether the child waits for another one. The rows of parents that have ended
/// before are deleted, but a scan still iterates over them until they are compacted away: a scan from the first row
/// would make a group of n members cost n² steps. Here the end of a parent reads one row, that of the remembered
/// parent.
///
/// When the remembered parent ends, another open one is searched for. The search begins at the row of the parent that
/// has ended and continues in the direction of the last search, and only if there is no open parent in that direction,
/// in the other one. Parents usually end in ascending or in descending order of their ids, so the next open one is
/// near. The order is not exact, because several parents run at once.
///
/// A remembered parent is only a hint, which is checked against the rows before it is used.
///
/// Safe from any thread.
final class OpenParents: Sendable {
  private struct Hint {
    var open: TaskID
    /// Whether it was found before the parent that had ended, and not after it.
    var isBefore: Bool
  }

  private let hints = Mutex<[TaskID: Hint]>([:])

  /// The maximum number of children that are remembered.
  private static let maximum = 4_096

  /// Returns whether a child waits for a task other than `parent`, whose row may have been deleted already.
  func hasOther(than parent: TaskID, of child: TaskID, in live: Part) throws -> Bool {
    let hint = hints.withLock { $0[child] }
    if let hint, hint.open != parent, try live.get(TaskKeys.parent(of: child, hint.open)) != nil { return true }
    let isBefore = hint?.isBefore ?? false
    for isReverse in [isBefore, !isBefore] {
      var range = StorageRange(prefix: TaskKeys.parent(of: child))
      if isReverse {
        range.upper = TaskKeys.parent(of: child, parent)
      } else if parent.rawValue < .max {
        range.lower = TaskKeys.parent(of: child, TaskID(rawValue: parent.rawValue + 1))
      } else {
        continue
      }
      if let (key, _) = try live.first(in: range, isReverse: isReverse) {
        remember(Hint(open: try TaskKeys.id(of: key, at: 9), isBefore: isReverse), child)
        return true
      }
    }
    hints.withLock { $0[child] = nil }
    return false
  }

  private func remember(_ hint: Hint, _ child: TaskID) {
    hints.withLock { hints in
      if hints.count >= Self.maximum, hints[child] == nil { hints.removeAll() }
      hints[child] = hint
    }
  }

  func removeAll() { hints.withLock { $0.removeAll() } }
}

/// Remembers, for each cancelled task that keeps others blocked, the child that was last found to stay blocked.
///
/// Each child that is cancelled then asks whether its parent keeps others blocked. A scan from the first child would
/// pass all children before the one that stays blocked, and the rows of those that do not wait any more: n children
/// would take n² steps. Here such a call reads one row, that of the remembered child. When that child does not stay
/// blocked any more, the search continues at its row.
///
/// A remembered child is only a hint, which is checked against its row before it is used.
///
/// Safe from any thread.
final class BlockedChildren: Sendable {
  private let hints = Mutex<[TaskID: TaskID]>([:])

  /// The maximum number of tasks for which a child is remembered.
  private static let maximum = 4_096

  /// Returns whether a task has a child that stays blocked if the task fails.
  func exist(of id: TaskID, in live: Part) throws -> Bool {
    let all = StorageRange(prefix: TaskKeys.child(of: id))
    var ranges = [all]
    if let hint = hints.withLock({ $0[id] }) {
      let key = TaskKeys.child(of: id, hint)
      if let value = try live.get(key), Self.staysBlocked(value) { return true }
      ranges = [all, all]
      ranges[0].lower = key
      ranges[1].upper = key
    }
    for range in ranges {
      var cursor = try live.cursor(range)
      while let (key, value) = try cursor.next() {
        guard Self.staysBlocked(value) else { continue }
        remember(try TaskKeys.id(of: key, at: 9), id)
        return true
      }
    }
    hints.withLock { $0[id] = nil }
    return false
  }

  private static func staysBlocked(_ value: [UInt8]) -> Bool { value.first == ParentFailure.stayBlocked.rawValue }

  private func remember(_ child: TaskID, _ id: TaskID) {
    hints.withLock { hints in
      if hints.count >= Self.maximum, hints[id] == nil { hints.removeAll() }
      hints[id] = child
    }
  }

  func removeAll() { hints.withLock { $0.removeAll() } }
}
