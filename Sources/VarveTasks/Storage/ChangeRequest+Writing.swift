internal import Varve

extension ChangeRequest {
  /// Makes the requested changes in a commit of the scheduler.
  func write(to changes: SchedulerChanges, _ dispatcher: TaskDispatcher) throws -> Answer {
    var answer = Answer()
    for id in ids {
      if !dispatcher.mayChange(id) {
        answer.remaining.append(id)
        continue
      }
      // The attempt ends in this commit, so the task is left to the next one, which sees how the attempt has ended.
      if let run = dispatcher.run(id), try changes.parts.live.get(run.claimKey) == nil {
        answer.remaining.append(id)
        continue
      }
      if let condition, try !changes.parts.holds(condition, id, isRunning: dispatcher.run(id) != nil) { continue }
      let isMeant =
        switch change {
        case .cancel: try changes.cancel(id)
        case .cancelMissed: try changes.cancelMissed(id)
        case .wake: try changes.wake(id)
        case .revive: try changes.reviveIfFree(id)
        case .delete: try dispatcher.run(id) == nil && changes.delete(id)
        }
      if isMeant { answer.count += 1 }
    }
    return answer
  }
}

extension TaskParts {
  /// Returns whether a task exists and fulfills a condition.
  func holds(_ condition: ChangeRequest.Condition, _ id: TaskID, isRunning: Bool) throws -> Bool {
    guard let record = try record(id) ?? endedRecord(id)?.record else { return false }
    return condition.holds(record, isRunning ? .running : record.progress.state)
  }
}
