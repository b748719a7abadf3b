internal import Synchronization

/// Pinning keeps segments unchanged while they are copied or read.
///
/// A segment that no entry needs any more is removed, or reused under another number. A reader of segments of a log in
/// use pins it first: live segments then stay as they are, and records are only appended to the last one. Segments that
/// are kept by pins alone do not count for the bound of the log.
///
/// Jobs of this engine pin with `pin`, for as long as they want. Readers in other processes pin through the shared page
/// (`ReaderPins`), for a limited time and number of bytes.
///
/// A pin does not prevent a restart after a failed sync from giving up the segments that are not durable (see
/// `generation`).
extension LogWriter {
  /// Keeps all live segments until `unpin` is called with the returned value.
  func pin() -> FileNumber {
    state.withLock { state in
      let oldest = state.live.first?.number ?? state.current.number
      state.pins.append(oldest)
      return oldest
    }
  }

  /// Ends a pin. Segments kept only by it are removed by the next `release`.
  func unpin(_ pin: FileNumber) {
    state.withLock { state in
      if let index = state.pins.firstIndex(of: pin) { state.pins.remove(at: index) }
    }
  }

  /// Publishes that segments before `number` are not needed, and returns the first one that must stay because of
  /// readers in other processes, or `number`.
  func boundOfRelease(before number: FileNumber) -> FileNumber {
    let (heldBytes, isFreeing) = state.withLock { state in
      state.needed = max(state.needed, number)
      let held = state.live.filter { $0.number < state.needed }
      return (held.reduce(0) { $0 + $1.capacity }, !held.isEmpty)
    }
    guard isFreeing else { return number }
    let bound = readers.withLock { readers -> FileNumber in
      guard readers != nil else { return number }
      return readers?.firstKept(before: number, isWithinBytes: heldBytes <= heldBytesMaximum) ?? number
    }
    if bound < number { didKeepForReaders() }
    return bound
  }
}
