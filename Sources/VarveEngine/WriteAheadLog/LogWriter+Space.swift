internal import Synchronization

/// What the log does on a disk that is nearly full.
///
/// The segments of the log are freed by flushes, and a flush needs space for its tables. So the log leaves a reserve,
/// the size of the entries that are not in tables yet, and of those for which the current segment has room: a segment
/// that would use the reserve is not made before those entries were flushed (`CommitPipeline+Space`). If space is
/// scarce even then, segments become smaller, and the log gives up the files that it keeps for reuse. Only a segment of
/// the smallest size may use the reserve.
extension LogWriter {
  /// What is done if there is no space for a segment.
  enum Economy {
    /// The segment is not made.
    case none
    /// A smaller one is made, which leaves the reserve.
    case withinReserve
    /// A smaller one is made. The smallest may use the reserve.
    case usingReserve
  }

  /// Sets the callback that returns the size in bytes of the entries that are not in tables yet.
  func onReserveQuery(_ bytes: @escaping @Sendable () -> Int) { reserveQuery.withLock { $0 = ReserveQuery(bytes) } }

  /// A structure that holds the function, for the reason given at `Callback`.
  struct ReserveQuery {
    let bytes: @Sendable () -> Int
    init(_ bytes: @escaping @Sendable () -> Int) { self.bytes = bytes }
  }

  /// Throws `.noSpace` if a segment of this size would use the reserve.
  func checkReserve(capacity: Int) throws(EngineError) {
    let room = state.withLock { $0.current.capacity - $0.current.published }
    let reserve = room + (reserveQuery.withLock { $0 }?.bytes() ?? 0)
    // If the free space is not known, the file system reports an error when the disk is full.
    guard let free = try? environment.fileSystem.freeSpace(directory) else { return }
    if free < UInt64(capacity) + UInt64(reserve) {
      throw EngineError(
        .noSpace,
        "a log segment of \(capacity) bytes and a flush of up to \(reserve) bytes need space, found \(free) bytes",
        file: directory)
    }
  }

  /// The size below which segments do not shrink.
  var smallestTarget: Int { min(options.initialSegmentSize, options.maximumSegmentSize) }

  /// Halves the size of the segments to come, to less than `size`.
  ///
  /// The size grows again with each segment that fills quickly (`State.seal`).
  func shrinkTarget(below size: Int) {
    state.withLock { state in
      state.targetCapacity = max(min(state.targetCapacity, size) / 2, smallestTarget)
    }
  }

  /// Removes the files that are kept for reuse, because the disk is full. Returns whether there were any.
  @discardableResult
  func releaseKeptFiles() -> Bool {
    let numbers = state.withLock { $0.pool.takeAll() }
    for number in numbers {
      // A file that remains is an orphan, which the next open removes.
      try? environment.fileSystem.remove(directory + "/" + FileName.pooledLog(number).name)
    }
    return !numbers.isEmpty
  }
}
