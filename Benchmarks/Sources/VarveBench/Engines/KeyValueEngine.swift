/// A store that maps byte strings to byte strings.
protocol KeyValueEngine: MeasuredEngine {
  associatedtype Session: KeyValueSession

  func makeSession() throws -> Session
}

/// One thread's session with the engine, which owns reusable batches, cursors and options.
///
/// Every read uses the bytes without a copy; an engine that must copy them does so as its C API does. A session touches
/// the value (`Touch`), so that reading a mapped page is included and not only the pointer to it.
protocol KeyValueSession: AnyObject {
  func put(_ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, sync: Bool) throws
  func addToBatch(_ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) throws
  func commitBatch(sync: Bool) throws
  func delete(_ key: UnsafeRawBufferPointer) throws
  /// Returns true if the key exists, after touching its value.
  func get(_ key: UnsafeRawBufferPointer) throws -> Bool

  /// Opens a cursor over all keys at the current state. A session has at most one.
  func openCursor() throws
  func closeCursor()
  func seekToFirst() throws -> Bool
  func seekToLast() throws -> Bool
  func seek(_ key: UnsafeRawBufferPointer) throws -> Bool
  func next() throws -> Bool
  func previous() throws -> Bool
  /// Touches the key and value of the cursor's entry, and returns the size of both in bytes.
  func touchEntry() -> Int
  func cursorIsAt(_ key: UnsafeRawBufferPointer) -> Bool

  /// Retains a snapshot of the current state until the session closes.
  func holdSnapshot() throws

  func close()
}
