/// What a commit of the scheduler means for lines and timers, besides the attempts that it begins and ends.
struct AsideDelta: Sendable {
  var entries: [(line: LineID, entry: LineEntry)] = []
  var timers: [TaskDelta.Timer] = []
  var removed: [(line: LineID, id: TaskID, key: [UInt8])] = []
  /// Tasks with children that are left, because there are many.
  var pending: [TaskID] = []
  /// The same, because transactions are changing some.
  var heldPending: [TaskID] = []
  /// Tasks that others depend on from now on.
  var parents: [TaskID] = []
  var names: [(name: QueueName, queue: TaskNames.Queue)] = []
  /// Attempts that are to be cancelled.
  var cancelling: [TaskRun] = []
  /// Children that were cancelled.
  var cancelled: [TaskRecord] = []

  var isEmpty: Bool {
    entries.isEmpty && timers.isEmpty && removed.isEmpty && pending.isEmpty && heldPending.isEmpty && parents.isEmpty
      && names.isEmpty && cancelling.isEmpty
  }
}
