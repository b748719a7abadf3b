/// The timers: a heap of the next ones, and the key from which on others are on disk.
struct TaskTimers: ~Copyable {
  enum Action: Hashable, Sendable {
    /// A task that waits for a time is due. The values are its id and the key of its row.
    case task(TaskID, key: [UInt8])
    /// The head of a serial queue is due for its next attempt.
    case line(LineID, key: [UInt8])
    /// There may be a token for a line.
    case tokens(LineID)
    /// A schedule has reached a time.
    case schedule(String)
    /// Tasks of a queue that have waited move up.
    case ageing(UInt32)
    /// The time limit of a handler has expired.
    case timeout(TaskID, epoch: UInt32)
    /// The lease of a handler has expired, unless it was renewed.
    case lease(TaskID, epoch: UInt32)
    /// A handler that was cancelled has not returned, and is abandoned.
    case abandon(TaskID, epoch: UInt32)
    /// The time is over in which the handler of a cancelled task had to return.
    case cancelOver(TaskID, epoch: UInt32)
  }

  struct Entry: Sendable {
    /// The time on the continuous clock at which the timer fires.
    var deadline: Duration
    /// The time of day at which the timer is due, in milliseconds since 1970, or `nil` if only `deadline` counts.
    var wall: Int64?
    /// The deadline on the clock that does not advance while the machine sleeps, or `nil` if it does not count.
    var suspending: Duration?
    let action: Action
  }

  private var heap: [Entry] = []
  /// The key from which on rows on disk are not in the heap, or `nil` if all are.
  var end: [UInt8]? = TaskKeys.timer(.min)
  private(set) var wallCount = 0
  private(set) var taskCount = 0

  static let taskMaximum = 4_096

  init() {}

  var isEmpty: Bool { heap.isEmpty }
  var first: Entry? { heap.first }

  mutating func insert(_ entry: Entry) {
    if entry.wall != nil { wallCount += 1 }
    if case .task = entry.action { taskCount += 1 }
    heap.append(entry)
    var index = heap.count - 1
    while index > 0 {
      let parent = (index - 1) / 2
      if heap[parent].deadline <= heap[index].deadline { break }
      heap.swapAt(parent, index)
      index = parent
    }
  }

  mutating func popFirst() -> Entry? {
    guard let first = heap.first else { return nil }
    if first.wall != nil { wallCount -= 1 }
    if case .task = first.action { taskCount -= 1 }
    let last = heap.removeLast()
    if heap.isEmpty { return first }
    heap[0] = last
    sink(0)
    return first
  }

  private mutating func sink(_ start: Int) {
    var index = start
    while true {
      var least = index
      for child in [2 * index + 1, 2 * index + 2]
      where child < heap.count && heap[child].deadline < heap[least].deadline {
        least = child
      }
      if least == index { return }
      heap.swapAt(least, index)
      index = least
    }
  }

  /// Subtracts `shift`, by which the wall clock was set forward, from the deadlines of dates.
  mutating func moveWall(by shift: Duration) {
    for index in heap.indices where heap[index].wall != nil { heap[index].deadline -= shift }
    for index in stride(from: heap.count / 2, through: 0, by: -1) where index < heap.count { sink(index) }
  }

  mutating func removeAll() {
    heap.removeAll()
    wallCount = 0
    taskCount = 0
    end = TaskKeys.timer(.min)
  }
}
