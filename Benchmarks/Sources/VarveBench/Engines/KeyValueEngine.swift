/// A store of byte strings by byte strings.
protocol KeyValueEngine: MeasuredEngine {
  associatedtype Session: KeyValueSession

  func makeSession() throws -> Session
}

/// One thread's session with the engine: owns reusable batches, cursors and options, is used by one thread.
///
/// Every read hands over the bytes where they lie: an engine that must copy them does so as its C API
/// does. A session touches the value (`Touch`), so that a mapped page that was only pointed at counts.
protocol KeyValueSession: AnyObject {
  func put(_ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, sync: Bool) throws
  func addToBatch(_ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) throws
  func commitBatch(sync: Bool) throws
  func delete(_ key: UnsafeRawBufferPointer) throws
  /// True when the key is there; its value was touched.
  func get(_ key: UnsafeRawBufferPointer) throws -> Bool

  /// A cursor over all keys at the present state. One a session.
  func openCursor() throws
  func closeCursor()
  func seekToFirst() throws -> Bool
  func seekToLast() throws -> Bool
  func seek(_ key: UnsafeRawBufferPointer) throws -> Bool
  func next() throws -> Bool
  func previous() throws -> Bool
  /// Touches key and value of the cursor's entry; the bytes of both.
  func touchEntry() -> Int
  func cursorIsAt(_ key: UnsafeRawBufferPointer) -> Bool

  /// Holds what is seen now until the session closes.
  func holdSnapshot() throws

  func close()
}
