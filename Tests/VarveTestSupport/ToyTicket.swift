internal import Synchronization
internal import Varve

/// The ticket of a commit of a `ToyBackend`, which is durable at once or when a caller waits for it.
struct ToyTicket: StorageTicket {
  let version: CommitVersion
  let backend: ToyBackend

  var isDurable: Bool {
    backend.storage.state.withLock { state in
      state.durable.version >= version.number && !state.hasFailed(version.number)
    }
  }

  func wait() throws {
    backend.delay()
    let hasFailed = backend.storage.state.withLock { state in
      state.settle(through: version.number)
      return state.hasFailed(version.number)
    }
    if hasFailed { throw ToyBackend.unknown }
  }

  func waitSuspended() async throws {
    await Task.yield()
    try wait()
  }
}
