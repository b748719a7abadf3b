internal import Synchronization

/// Keeps segments where they are while somebody copies them.
///
/// A segment that no entry needs any more is removed, or zeroed and used again under another number. Who
/// reads segments of a log in use pins it first: what is live then stays as it is, and records are only
/// appended to the last one. While a pin is held the log may be longer than its bound.
///
/// One thing a pin does not hold: a restart after a failed sync gives up the segments that are not durable
/// (`generation` tells).
extension LogWriter {
  /// Keeps all live segments until `unpin` is called with what this returns.
  func pin() -> FileNumber {
    state.withLock { state in
      let oldest = state.live.first?.number ?? state.current.number
      state.pins.append(oldest)
      return oldest
    }
  }

  /// Ends a pin. The segments that only it kept go by the next `release`.
  func unpin(_ pin: FileNumber) {
    state.withLock { state in
      if let index = state.pins.firstIndex(of: pin) { state.pins.remove(at: index) }
    }
  }
}
