/// An object that keeps the bytes of one entry valid after its iterator is released.
///
/// It holds a pin on the entry's block, or its memtable, and the buffers in which its key and value were assembled.
///
/// # Safety
/// The object owns the memory at `keyBytes`.
///
/// # Concurrency
/// One thread fills the object. After that it is only released, by any thread.
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

  /// Keeps a block, and takes ownership of the memory in which the key was assembled.
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
  /// Releases the iterator and keeps its entry: the views of the entry stay valid as long as `hold` lives. The
  /// iterator is not valid afterwards.
  mutating func giveUpEntry(to hold: EntryHold) { giveUpEntry(to: hold) { $0.giveUpEntry(to: hold) } }
}
