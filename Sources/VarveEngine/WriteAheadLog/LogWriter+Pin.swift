internal import Synchronization

/// Pinning keeps segments unchanged while they are copied.
///
/// A segment that no entry needs any more is removed, or zeroed and reused under another number. A reader of segments
/// of a log in use pins it first: live segments then stay as they are, and records are only appended to the last one.
/// While a pin is held the log may exceed its size limit.
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
}
