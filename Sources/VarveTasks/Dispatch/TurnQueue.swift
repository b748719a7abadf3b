/// Subqueues in the order in which they have their turns.
///
/// Complexity: amortized O(1) for each operation.
struct TurnQueue {
  private var subqueues: [SubqueueID] = []
  private var begin = 0

  var count: Int { subqueues.count - begin }
  var isEmpty: Bool { begin == subqueues.count }
  var first: SubqueueID? { begin < subqueues.count ? subqueues[begin] : nil }

  mutating func append(_ subqueue: SubqueueID) { subqueues.append(subqueue) }

  /// Puts a subqueue before all others.
  mutating func prepend(_ subqueue: SubqueueID) {
    if begin > 0 {
      begin -= 1
      subqueues[begin] = subqueue
    } else {
      subqueues.insert(subqueue, at: 0)
    }
  }

  mutating func popFirst() -> SubqueueID? {
    guard begin < subqueues.count else { return nil }
    defer {
      begin += 1
      if begin == subqueues.count {
        subqueues.removeAll(keepingCapacity: true)
        begin = 0
      } else if begin >= 4_096 {
        subqueues.removeFirst(begin)
        begin = 0
      }
    }
    return subqueues[begin]
  }
}

extension TurnQueue: CustomStringConvertible {
  var description: String { "\(subqueues[begin...])" }
}
