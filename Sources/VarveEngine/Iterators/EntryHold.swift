/// What keeps the bytes of one entry where they are, when the iterator that showed it is given up: a pin on its
/// block, or its memtable, and the buffers that its key and value were put together in.
///
/// # Safety
/// Owner of the memory at `keyBytes`.
///
/// # Concurrency
/// Filled by one thread, and then only let go, by any.
@safe
final class EntryHold: @unchecked Sendable {
  // Sendable: see Concurrency above.
  private var pin: BlockPin?
  private var memTable: MemTable?
  private var keyBytes: UnsafeMutableRawPointer?
  private var key: KeyBuffer?
  private var value: ByteWriter?
  private var merged: MergeValue?

  deinit { unsafe keyBytes?.deallocate() }

  func keep(_ memTable: MemTable) { self.memTable = memTable }

  /// Keeps a block, and takes over the memory that the key was put together in.
  @unsafe
  func keep(_ pin: consuming BlockPin?, key: UnsafeMutableRawPointer) {
    self.pin = pin
    unsafe keyBytes = key
  }

  func keep(key: consuming KeyBuffer, value: consuming ByteWriter, merged: consuming MergeValue) {
    self.merged = consume merged
    self.key = consume key
    self.value = consume value
  }
}

extension VisibleIterator where Child == MergeSource {
  /// Gives up the entry on which the iterator stands: its views stay valid as long as `hold` lives, and the
  /// iterator is not valid any more.
  mutating func giveUpEntry(to hold: EntryHold) { giveUpEntry(to: hold) { $0.giveUpEntry(to: hold) } }
}
