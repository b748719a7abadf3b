/// The events that a subscription holds for its consumer, in commit order, each commit once.
///
/// # States
/// *Live*: the events of commits are kept as they arrive. *Lagging* (`isLagging`): there were too many events, or the
/// subscription begins in the past; arriving events are dropped, because the feed contains them. When the consumer has
/// taken the kept events, a page of the feed is read. Events are kept again from before that read on, so that none
/// between the page's snapshot and the present is missed; duplicates are recognized by their version. A page that is
/// not the last one leads back to *lagging*.
///
/// # Bounds
/// `capacity` events and `ChangeLimits.bufferedRows` rows, except for a single event that is larger, and one page of
/// the feed.
struct ChangeBuffer {
  /// The next step of the consumer.
  enum Step {
    case give(ChangeEvent)
    /// Read the feed after this version, and report it with `didRead`.
    case read(after: CommitVersion)
    /// Wait until something was added.
    case wait
    case fail(any Error)
    case end
  }

  private let capacity: Int
  /// Whether omitted events are read from the feed; otherwise the consumer receives a gap.
  private let readsFeed: Bool
  /// The version up to which the consumer has received everything.
  private var position: CommitVersion
  private var page = EventQueue()
  private var live = EventQueue()
  private var isLagging: Bool
  /// The latest commit that was passed to `add`, kept or not.
  private var newest: CommitVersion
  private var isEnded = false
  private var failure: (any Error)?

  init(
    after position: CommitVersion, isLagging: Bool = false, newest: CommitVersion = .zero, capacity: Int,
    readsFeed: Bool = true
  ) {
    self.position = position
    self.isLagging = isLagging
    self.newest = newest
    self.capacity = max(1, capacity)
    self.readsFeed = readsFeed
  }

  /// Adds the event of a commit.
  mutating func add(_ event: ChangeEvent) {
    newest = max(newest, event.version)
    guard !isLagging, !isEnded else { return }
    let isFull =
      live.count >= capacity || live.count > 0 && live.rowCount + event.rowCount > ChangeLimits.bufferedRows
    if isFull { isLagging = true } else { live.append(event) }
  }

  /// Ends the buffer: no event is added any more, and those kept are still delivered.
  mutating func end() { isEnded = true }

  /// Ends the buffer with an error, which the consumer receives after the kept events.
  mutating func fail(_ error: any Error) {
    if !isEnded, failure == nil { failure = error }
    isEnded = true
  }

  /// Returns the next step of the consumer.
  mutating func next() -> Step {
    if let event = page.popFirst() {
      position = event.version
      return .give(event)
    }
    while let event = live.popFirst() {
      guard let part = event.part(after: position) else { continue }
      position = part.version
      return .give(part)
    }
    if let failure {
      self.failure = nil
      return .fail(failure)
    }
    if isEnded { return .end }
    guard isLagging else { return .wait }
    isLagging = false
    if readsFeed { return .read(after: position) }
    guard newest > position else { return .wait }
    defer { position = newest }
    return .give(.gap(from: position, to: newest))
  }

  /// Takes a page of the feed, read from the position that `next` returned.
  mutating func didRead(_ read: FeedPage) {
    for event in read.events { page.append(event) }
    guard !read.isComplete else { return }
    // Events that have arrived meanwhile come after those that are still to be read from the feed.
    live = EventQueue()
    isLagging = true
  }
}

/// A queue of events, the oldest first.
private struct EventQueue {
  private var events: [ChangeEvent] = []
  private var first = 0
  private(set) var rowCount = 0

  var count: Int { events.count - first }

  mutating func append(_ event: ChangeEvent) {
    events.append(event)
    rowCount += event.rowCount
  }

  mutating func popFirst() -> ChangeEvent? {
    guard first < events.count else { return nil }
    let event = events[first]
    // The slot must not keep the removed event alive.
    events[first] = .gap(from: .zero, to: .zero)
    first += 1
    rowCount -= event.rowCount
    if first == events.count {
      events.removeAll(keepingCapacity: true)
      first = 0
    } else if first > 64, first > events.count / 2 {
      events.removeFirst(first)
      first = 0
    }
    return event
  }
}
