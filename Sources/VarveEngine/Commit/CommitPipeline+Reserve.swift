internal import Synchronization

/// What the pipeline accepts on a full disk: batches that free space (`SpaceReserve`).
///
/// Such a batch has at least one delete. Its puts and operands take at most 4 KiB, and 256 bytes and twice the key for
/// each delete, besides those that the database itself adds: so a deleted object takes its index entries with it, and
/// its entry in the feed and its counts are written. Every other batch is refused with `.noSpace`. All puts together
/// may take a quarter of the reserve, so a program that continues to update rows, or to move them from key to key,
/// leaves space for deletes.
extension CommitPipeline {
  private static var putBytesMaximum: Int { 4 << 10 }
  private static var putBytesPerDelete: Int { 256 }

  /// The functions by which the pipeline uses the reserve. A structure holds them, for the reason given at `Callback`.
  struct ReserveUse {
    /// Notes that there is no space.
    let exhaust: @Sendable () -> Void
    /// Returns whether only writes that free space are accepted.
    let isExhausted: @Sendable () -> Bool
    /// Counts the bytes that a write puts besides its deletes. Returns false if the puts of all such writes together
    /// would take too much of the reserve.
    let admit: @Sendable (_ putBytes: Int) -> Bool
    /// Notes that a write that frees space was accepted, and gives up the space of the reserve. Returns whether there
    /// was some.
    let giveUp: @Sendable () -> Bool
  }

  /// Sets the functions by which the reserve is used.
  func onReserve(_ use: ReserveUse) { reserveUse.withLock { $0 = use } }

  /// A Boolean value that indicates whether only batches that free space are accepted.
  var acceptsOnlyDeletes: Bool { reserveUse.withLock { $0 }?.isExhausted() ?? false }

  /// Returns the bytes that a batch puts besides its deletes, or `nil` if it is not accepted on a full disk.
  ///
  /// `ownByteCount` bytes of its end are the database's own.
  static func putBytes(onFullDisk payload: ByteView, ownByteCount: Int) -> Int? {
    var reader = BatchReader(payload)
    var putBytes = 0
    var allowed = putBytesMaximum
    var hasDelete = false
    while let entry = try? reader.next() {
      switch entry.kind {
      case .put, .merge:
        if reader.position <= payload.count - ownByteCount { putBytes += entry.key.count + entry.value.count }
      case .delete, .singleDelete, .rangeDelete:
        hasDelete = true
        allowed += putBytesPerDelete + 2 * (entry.key.count + entry.value.count)
      }
    }
    return hasDelete && putBytes <= allowed ? putBytes : nil
  }

  /// Returns whether a batch is accepted on a full disk.
  static func frees(_ payload: ByteView, _ terms: CommitTerms) -> Bool {
    putBytes(onFullDisk: payload, ownByteCount: terms.ownByteCount) != nil
  }

  /// Throws `.noSpace` if only batches that free space are accepted, and this one does not: `putBytes` is `nil`. One
  /// that does gives up the reserve.
  @inline(never)
  func checkAcceptance(putBytes: Int?) throws(EngineError) {
    guard let use = reserveUse.withLock({ $0 }), use.isExhausted() else { return }
    guard let putBytes, putBytes == 0 || use.admit(putBytes) else { throw Self.deletesOnlyError(log.directory) }
    _ = use.giveUp()
  }

  static func deletesOnlyError(_ directory: String) -> EngineError {
    EngineError(
      .noSpace, "the disk is full: until there is space again, only writes that free some are accepted", file: directory
    )
  }

  /// Notes that an attempt to make room failed. Returns whether the reserve was given up for it, so that another
  /// attempt may succeed.
  func usesReserve(after error: EngineError, frees: Bool) -> Bool {
    guard error.code == .noSpace, let use = reserveUse.withLock({ $0 }) else { return false }
    use.exhaust()
    return frees && use.isExhausted() && use.giveUp()
  }
}
