internal import Synchronization
internal import Varve

/// Schedules that the program does not register any more.
extension TaskScheduler {
  /// The time that a program has to register its schedules after a start.
  static let registrationTime = Duration.seconds(60)

  /// Waits for the registrations of schedules, if the database has some that are not registered yet.
  func lookForUnregistered() async {
    let registered = state.withLock { Set($0.schedules.keys) }
    // What can't be read now is looked at then.
    let isComplete = try? await database.read { tx in
      try tx.taskSchedules().allSatisfy { $0.isInactive || registered.contains($0.name) }
    }
    if isComplete != true { waitForRegistrations() }
  }

  /// Lets the loop look for schedules that are not registered, when the program has had time to register them.
  ///
  /// A scheduler that ends before has seen nothing: its process may have died before it came to register them, and
  /// their slots must be made up for.
  func waitForRegistrations() {
    dispatcher.insert(
      Timers.Entry(
        deadline: clock.continuousNow + Self.registrationTime, wall: nil, suspending: nil, action: .unregistered))
  }

  /// Writes that schedules are inactive which are not registered.
  func noteUnregistered(_ config: Part) throws {
    let registered = state.withLock { Set($0.schedules.keys) }
    var found: [(key: [UInt8], record: ScheduleRecord)] = []
    var cursor = try config.cursor(StorageRange(prefix: [ConfigKeys.schedule]))
    while let (key, value) = try cursor.next() {
      if registered.contains(String(decoding: key.dropFirst(), as: UTF8.self)) { continue }
      // One that can't be read is stored again when it is registered.
      if let record = try? ScheduleRecord(value), !record.isInactive { found.append((key, record)) }
    }
    for (key, record) in found {
      var record = record
      record.isInactive = true
      try config.put(key, record.bytes)
    }
  }
}
