extension TaskRequest {
  /// Makes the change, in a commit of the scheduler.
  func write(to changes: AsideChanges, _ dispatcher: TaskDispatcher) throws -> Answer {
    var answer = Answer()
    for id in ids {
      if dispatcher.isHeld(id) {
        answer.left.append(id)
        continue
      }
      let isMeant =
        switch change {
        case .cancel: try changes.cancel(id)
        case .wake: try changes.wake(id)
        case .revive: try changes.reviveIfFree(id)
        case .delete: try dispatcher.run(id) == nil && changes.delete(id)
        }
      if isMeant { answer.count += 1 }
    }
    return answer
  }
}
